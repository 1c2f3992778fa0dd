// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive doubly linked list. A `struct list` is either a head or a node inside a larger struct.
 * A node that is in no list points to itself, so that list_remove may be called on it again and
 * list_empty(node) reports whether it is linked.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

#include "base/base.h"

struct list {
	struct list *next;
	struct list *prev;
};

#define LIST_INIT(name)                          \
	{                                        \
		.next = &(name), .prev = &(name) \
	}

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

/* Reports whether a list (l is its head) has no entries, or whether a node (l) is in no list. */
static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_insert_between(struct list *node, struct list *prev, struct list *next)
{
	node->prev = prev;
	node->next = next;
	prev->next = node;
	next->prev = node;
}

static inline void list_push_front(struct list *head, struct list *node)
{
	list_insert_between(node, head, head->next);
}

static inline void list_push_back(struct list *head, struct list *node)
{
	list_insert_between(node, head->prev, head);
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Return the first or last node, NULL if the list is empty. */
static inline struct list *list_first(const struct list *head)
{
	return list_empty(head) ? NULL : head->next;
}

static inline struct list *list_last(const struct list *head)
{
	return list_empty(head) ? NULL : head->prev;
}

static inline struct list *list_pop_front(struct list *head)
{
	struct list *node = list_first(head);
	if (node != NULL)
		list_remove(node);
	return node;
}

#define list_entry(node, type, member) container_of(node, type, member)

/* Counts the entries, in O(n). */
static inline size_t list_length(const struct list *head)
{
	size_t n = 0;
	for (const struct list *at = head->next; at != head; at = at->next)
		n++;
	return n;
}

/* `pos` is a declared pointer to the entry type; the body must not unlink it (see _safe). */
#define list_for_each_entry(pos, head, member)                             \
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member); \
	     &(pos)->member != (head);                                     \
	     (pos) = list_entry((pos)->member.next, __typeof__(*(pos)), member))

/* Iterates as list_for_each_entry does. The body may unlink and free `pos`, but not the next entry,
 * which `after` holds. */
#define list_for_each_entry_safe(pos, after, head, member)                        \
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member),        \
	    (after) = list_entry((pos)->member.next, __typeof__(*(pos)), member); \
	     &(pos)->member != (head); (pos) = (after),                           \
	    (after) = list_entry((pos)->member.next, __typeof__(*(pos)), member))

#endif
