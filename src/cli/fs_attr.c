// SPDX-License-Identifier: Apache-2.0
/* attr: reads and changes the attributes of files and directories. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/fs.h"

#define MODE_MAX 07777u

/* --- as text ---------------------------------------------------------------------------------- */

const char *fs_mode(char out[FS_MODE_TEXT], bool directory, bool known, uint32_t mode)
{
	static const char letters[] = "rwxrwxrwx";
	out[0] = directory ? 'd' : '-';
	for (int i = 0; i < 9; i++)
		out[1 + i] = !known ? '?' : mode >> (8 - i) & 1u ? letters[i] : '-';
	out[10] = 0;
	return out;
}

const char *fs_owner(char out[FS_OWNER_TEXT], bool known, uint32_t id)
{
	snprintf(out, FS_OWNER_TEXT, known ? "%u" : "?", id);
	return out;
}

void fs_owner_json(json_t *to, uint32_t has, uint32_t mode, uint32_t uid, uint32_t gid)
{
	char text[16];
	snprintf(text, sizeof(text), "%04o", mode);
	if ((has & TERRANE_HAS_MODE) != 0)
		json_object_set_new(to, "mode", json_string(text));
	if ((has & TERRANE_HAS_UID) != 0)
		json_object_set_new(to, "uid", json_integer(uid));
	if ((has & TERRANE_HAS_GID) != 0)
		json_object_set_new(to, "gid", json_integer(gid));
}

static bool is_text(const struct terrane_attribute *u)
{
	const char *text = u->value;
	for (size_t i = 0; i < u->len;) {
		size_t n = utf8_char_len(text + i, u->len - i);
		if (n == 0 || ((unsigned char)text[i] < ' ' && text[i] != '\n' && text[i] != '\t'))
			return false;
		i += n;
	}
	return true;
}

/* A value that is not text becomes {"hex": "00ff"}. */
static json_t *json_of_value(const struct terrane_attribute *u)
{
	if (is_text(u))
		return json_text(u->value, u->len);
	char *hex = malloc(2 * u->len + 1);
	if (hex == NULL)
		return NULL;
	for (size_t i = 0; i < u->len; i++)
		snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char *)u->value)[i]);
	json_t *out = json_pack("{s:s}", "hex", hex);
	free(hex);
	return out;
}

static json_t *json_of_attributes(const char *path, const struct terrane_attributes *a)
{
	json_t *user = json_object();
	for (size_t i = 0; i < a->user_count; i++)
		json_object_set_new(user, a->user[i].name, json_of_value(&a->user[i]));
	json_t *out = json_pack("{s:o, s:I, s:o}", "path", json_text(path, strlen(path)),
				"mtime_ns", (json_int_t)a->mtime_ns, "user", user);
	fs_owner_json(out, a->set, a->mode, a->uid, a->gid);
	return out;
}

static void print_attributes(const struct terrane_attributes *a)
{
	char when[32], shown[FS_PATH_MAX];
	if ((a->set & TERRANE_HAS_MODE) != 0)
		printf("  mode %04o\n", a->mode);
	if ((a->set & TERRANE_HAS_UID) != 0)
		printf("  uid %u\n", a->uid);
	if ((a->set & TERRANE_HAS_GID) != 0)
		printf("  gid %u\n", a->gid);
	printf("  mtime %s\n", fs_time(when, a->mtime_ns));
	for (size_t i = 0; i < a->user_count; i++) {
		const struct terrane_attribute *u = &a->user[i];
		char text[TERRANE_ATTRIBUTE_BYTES_MAX + 1];
		printf("  %s", fs_show(shown, u->name));
		memcpy(text, u->value, u->len);
		text[u->len] = 0;
		if (is_text(u))
			printf(" %s\n", fs_show(shown, text));
		else
			printf(" (%zu bytes)\n", u->len);
	}
}

/* --- reading ---------------------------------------------------------------------------------- */

static int attr_list(struct fs *fs, int n, char **paths)
{
	uint64_t buf[TERRANE_ATTRIBUTES_BYTES / sizeof(uint64_t)];
	int status = CLI_OK;
	AUTO_JSON json_t *all = json_array();
	for (int i = 0; i < n; i++) {
		char shown[FS_PATH_MAX];
		struct terrane_attributes a;
		int rc = terrane_attributes_get(fs->t, paths[i], &a, buf, sizeof(buf), &fs->o);
		if (rc < 0) {
			status = fs_fail(&fs->error, rc, "cannot read the attributes of", paths[i]);
		} else if (fs->flags.json) {
			json_array_append_new(all, json_of_attributes(paths[i], &a));
		} else {
			printf("%s\n", fs_show(shown, paths[i]));
			print_attributes(&a);
		}
	}
	bool one = n == 1 && json_array_size(all) == 1;
	if (fs->flags.json && json_emit(stdout, one ? json_array_get(all, 0) : all) < 0)
		return cli_fail("cannot write the output");
	return status;
}

/* Finds the text of mode, uid, gid or mtime. Returns false for another name, or if there is no value. */
static bool field_text(const struct terrane_attributes *a, const char *name, char out[32])
{
	if (strcmp(name, "mode") == 0 && (a->set & TERRANE_HAS_MODE) != 0)
		snprintf(out, 32, "%04o", a->mode);
	else if (strcmp(name, "uid") == 0 && (a->set & TERRANE_HAS_UID) != 0)
		snprintf(out, 32, "%u", a->uid);
	else if (strcmp(name, "gid") == 0 && (a->set & TERRANE_HAS_GID) != 0)
		snprintf(out, 32, "%u", a->gid);
	else if (strcmp(name, "mtime") == 0)
		fs_time(out, a->mtime_ns);
	else
		return false;
	return true;
}

static int print_value(const struct fs *fs, const struct terrane_attribute *u)
{
	if (fs->flags.json) {
		AUTO_JSON json_t *one = json_object();
		json_object_set_new(one, u->name, json_of_value(u));
		return json_emit(stdout, one) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	fwrite(u->value, 1, u->len, stdout);
	if (is_text(u))
		putchar('\n');
	return CLI_OK;
}

static int attr_get(struct fs *fs, const char *path, const char *name)
{
	uint64_t buf[TERRANE_ATTRIBUTES_BYTES / sizeof(uint64_t)];
	char shown[FS_PATH_MAX], named[FS_PATH_MAX], text[32];
	struct terrane_attributes a;
	int rc = terrane_attributes_get(fs->t, path, &a, buf, sizeof(buf), &fs->o);
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot read the attributes of", path);
	if (field_text(&a, name, text))
		return print_value(fs, &(struct terrane_attribute){
					       .name = name, .value = text, .len = strlen(text)});
	for (size_t i = 0; i < a.user_count; i++)
		if (strcmp(a.user[i].name, name) == 0)
			return print_value(fs, &a.user[i]);
	return cli_fail("%s has no attribute %s", fs_show(shown, path), fs_show(named, name));
}

/* --- changing --------------------------------------------------------------------------------- */

static bool is_field(const char *name)
{
	static const char *const fields[] = {"mode", "uid", "gid", "mtime"};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (strcmp(name, fields[i]) == 0)
			return true;
	return false;
}

static int take_number(const char *text, int base, uint64_t max, uint32_t *out)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, base);
	if (errno != 0 || end == text || *end != 0 || text[0] == '-' || value > max)
		return -EINVAL;
	*out = (uint32_t)value;
	return 0;
}

/* Reads a time: seconds since 1970, or 2024-05-31T12:00:00Z. */
static int take_time(const char *text, uint64_t *out_ns)
{
	struct tm tm = {0};
	char *end;
	errno = 0;
	unsigned long long s = strtoull(text, &end, 10);
	if (errno == 0 && end != text && *end == 0 && text[0] != '-' && s < INT64_MAX / NS_PER_S) {
		*out_ns = s * NS_PER_S;
		return 0;
	}
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	time_t at = rest != NULL && *rest == 0 ? timegm(&tm) : -1;
	if (at < 0 || (uint64_t)at >= INT64_MAX / NS_PER_S)
		return -EINVAL;
	*out_ns = (uint64_t)at * NS_PER_S;
	return 0;
}

static int take_field(struct terrane_attributes *change, const char *name, const char *value)
{
	if (strcmp(name, "mode") == 0) {
		change->set |= TERRANE_HAS_MODE;
		return take_number(value, 8, MODE_MAX, &change->mode);
	}
	if (strcmp(name, "uid") == 0) {
		change->set |= TERRANE_HAS_UID;
		return take_number(value, 10, UINT32_MAX - 1, &change->uid);
	}
	if (strcmp(name, "gid") == 0) {
		change->set |= TERRANE_HAS_GID;
		return take_number(value, 10, UINT32_MAX - 1, &change->gid);
	}
	change->set |= TERRANE_HAS_MTIME;
	return take_time(value, &change->mtime_ns);
}

static int attr_set(struct fs *fs, const char *path, int n, char **words)
{
	struct terrane_attribute user[TERRANE_ATTRIBUTES_MAX];
	struct terrane_attributes change = {.user = user};
	char shown[FS_PATH_MAX];
	for (int i = 0; i < n; i++) {
		char *value = strchr(words[i], '=');
		if (value == NULL || value == words[i])
			return cli_usage("attr: %s: give NAME=VALUE", fs_show(shown, words[i]));
		*value++ = 0;
		if (is_field(words[i])) {
			if (take_field(&change, words[i], value) < 0)
				return cli_usage("attr: %s=%s: a mode is octal up to 7777, an id a "
						 "number, a time seconds since 1970 or "
						 "2024-05-31T12:00:00Z",
						 words[i], fs_show(shown, value));
			continue;
		}
		if (change.user_count == TERRANE_ATTRIBUTES_MAX)
			return cli_usage("attr: more than %d attributes", TERRANE_ATTRIBUTES_MAX);
		user[change.user_count++] = (struct terrane_attribute){
			.name = words[i], .value = value, .len = strlen(value)};
	}
	int rc = terrane_attributes_set(fs->t, path, &change, &fs->o);
	return rc < 0 ? fs_fail(&fs->error, rc, "cannot set attributes of", path) : CLI_OK;
}

static int attr_remove(struct fs *fs, const char *path, int n, char **names)
{
	uint64_t buf[TERRANE_ATTRIBUTES_BYTES / sizeof(uint64_t)];
	struct terrane_attribute user[TERRANE_ATTRIBUTES_MAX];
	struct terrane_attributes has, change = {.user = user};
	char shown[FS_PATH_MAX], named[FS_PATH_MAX];
	int rc = terrane_attributes_get(fs->t, path, &has, buf, sizeof(buf), &fs->o);
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot read the attributes of", path);
	for (int i = 0; i < n; i++) {
		bool found = false;
		for (size_t j = 0; j < has.user_count; j++)
			found = found || strcmp(has.user[j].name, names[i]) == 0;
		if (is_field(names[i]))
			return cli_usage("attr: %s cannot be removed, only set", names[i]);
		if (!found || change.user_count == TERRANE_ATTRIBUTES_MAX)
			return cli_fail("%s has no attribute %s; nothing was removed",
					fs_show(shown, path), fs_show(named, names[i]));
		user[change.user_count++] = (struct terrane_attribute){.name = names[i]};
	}
	rc = terrane_attributes_set(fs->t, path, &change, &fs->o);
	return rc < 0 ? fs_fail(&fs->error, rc, "cannot remove attributes of", path) : CLI_OK;
}

static int run_attr(struct fs *fs, int n, char **words)
{
	const char *verb = words[0];
	bool list = strcmp(verb, "list") == 0;
	for (int i = 1; i < (list ? n : 2); i++)
		if (fs_path_check("attr", words[i]) != CLI_OK)
			return CLI_FAILED;
	if (list)
		return attr_list(fs, n - 1, words + 1);
	if (strcmp(verb, "get") == 0 && n == 3)
		return attr_get(fs, words[1], words[2]);
	if (strcmp(verb, "set") == 0 && n > 2)
		return attr_set(fs, words[1], n - 2, words + 2);
	if (strcmp(verb, "remove") == 0 && n > 2)
		return attr_remove(fs, words[1], n - 2, words + 2);
	return cli_usage("attr: give list PATH..., get PATH NAME, set PATH NAME=VALUE... or "
			 "remove PATH NAME...");
}

const struct fs_command fs_attr_commands[] = {
	{"attr", "show and change attributes", "list|get|set|remove PATH [NAME[=VALUE]]...",
	 "Shows and changes the attributes of files and directories:\n"
	 "  attr list PATH...             all attributes\n"
	 "  attr get PATH NAME            the value of one\n"
	 "  attr set PATH NAME=VALUE...   mode (octal), uid, gid, mtime, or any name of yours\n"
	 "  attr remove PATH NAME...      names of yours\n"
	 "An object has up to 64 names of yours, with up to 4096 bytes of names and values.\n"
	 "Attributes are kept and shown. Access is decided by users and their grants, not by\n"
	 "the mode. put stores the attributes of local files, also extended attributes user.NAME\n"
	 "as NAME, and get restores them. The root has none.",
	 "", 2, 1000, run_attr, FS_REMOTE_NONE},
};
const size_t fs_attr_count = ARRAY_LEN(fs_attr_commands);
