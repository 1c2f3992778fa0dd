// SPDX-License-Identifier: Apache-2.0
/*
 * A line is formatted on the caller's stack (about 2 KiB, which fibers have room for) and passed to
 * the sink without a lock. The lock guards only the rates.
 */
#include "base/log.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

#define LOG_CUT_MARK " cut=1"

static struct {
	/* installed configuration, constant while several threads log; the field `level` has a copy
	 * of its level */
	struct log_config config;
	_Atomic(enum log_level) level;
	/* guards all log_sites and the list `owing`; no other lock is taken while it is
	 * held */
	pthread_mutex_t lock;
	struct log_site *owing;
} logger = {.level = LOG_INFO, .lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const log_level_names[] = {
	[LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn",
	[LOG_ERROR] = "error", [LOG_OFF] = "off",
};

/* Returns the name of a level: "debug", "info", "warn", "error" or "off". */
static const char *log_level_name(enum log_level level)
{
	assert((size_t)level < ARRAY_LEN(log_level_names));
	return log_level_names[level];
}

void log_setup(const struct log_config *config)
{
	log_flush();
	logger.config = config != NULL ? *config : (struct log_config){.level = LOG_INFO};
	log_set_level(logger.config.level);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&logger.level, level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
	return level >= atomic_load_explicit(&logger.level, memory_order_relaxed);
}

/* A line under construction: len bytes of text, with room for the cut mark and the newline. */
struct log_text {
	char text[LOG_LINE_MAX];
	size_t len;
	bool cut;
};

/* longest text of a line in bytes, without the cut mark and the newline */
#define LOG_TEXT_MAX (LOG_LINE_MAX - sizeof(LOG_CUT_MARK))

static void text_add(struct log_text *t, const char *s, size_t len)
{
	assert(t->len <= LOG_TEXT_MAX);
	if (t->cut || len > LOG_TEXT_MAX - t->len) {
		t->cut = true;
		return;
	}
	memcpy(t->text + t->len, s, len);
	t->len += len;
}

/* Writes the escape sequence of one byte and returns its length, at most 4. */
static size_t escape_byte(char out[5], unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *short_form = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
	if (short_form != NULL) {
		memcpy(out, short_form, 3);
		return 2;
	}
	memcpy(out, "\\x", 2);
	out[2] = digits[c >> 4];
	out[3] = digits[c & 15];
	out[4] = '\0';
	return 4;
}

/* Returns the length of the printable character at s, or 0 if its first byte must be escaped. */
static size_t printable_len(const char *s, size_t len)
{
	unsigned char c = (unsigned char)s[0];
	if (c < 0x20 || c == 0x7f)
		return 0;
	/* U+0080 to U+009F are control characters too; some terminals interpret them. */
	if (c == 0xc2 && len > 1 && (unsigned char)s[1] < 0xa0)
		return 0;
	return utf8_char_len(s, len);
}

static void text_add_escaped(struct log_text *t, const char *s, size_t len)
{
	for (size_t i = 0; i < len && !t->cut;) {
		size_t n = printable_len(s + i, len - i);
		if (n > 0) {
			text_add(t, s + i, n);
			i += n;
			continue;
		}
		char escape[5];
		text_add(t, escape, escape_byte(escape, (unsigned char)s[i]));
		i++;
	}
}

static void text_printf(struct log_text *t, const char *format, ...) PRINTF(2, 3);
static void text_printf(struct log_text *t, const char *format, ...)
{
	char piece[96];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(piece, sizeof(piece), format, args);
	va_end(args);
	if (n > 0)
		text_add(t, piece, min_u64((uint64_t)n, sizeof(piece) - 1));
}

/* Converts days since 1970-01-01 to a date of the Gregorian calendar. Counts years from 1 March, so
 * that the leap day comes last, in eras of 400 years (146,097 days). */
static void civil_date(uint64_t days, unsigned int *year, unsigned int *month, unsigned int *day)
{
	uint64_t since = days + 719468; /* days since 0000-03-01 */
	uint64_t era = since / 146097;
	uint64_t day_of_era = since % 146097;
	uint64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	uint64_t day_of_year =
		day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t month_from_march = (5 * day_of_year + 2) / 153;
	*day = (unsigned int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
	*month =
		(unsigned int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
	*year = (unsigned int)(era * 400 + year_of_era + (*month <= 2 ? 1 : 0));
}

static void text_start(struct log_text *t, uint64_t now_ns, enum log_level level, const char *event)
{
	t->len = 0;
	t->cut = false;
	if (now_ns != 0) {
		unsigned int year, month, day;
		uint64_t seconds = now_ns / NS_PER_S;
		civil_date(seconds / 86400, &year, &month, &day);
		unsigned int of_day = (unsigned int)(seconds % 86400);
		text_printf(t, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ ", year, month, day,
			    of_day / 3600, of_day / 60 % 60, of_day % 60,
			    (unsigned int)(now_ns % NS_PER_S / NS_PER_US));
	}
	text_printf(t, "%s ", log_level_name(level));
	text_add_escaped(t, event, strlen(event));
	const char *proc =
		logger.config.proc != NULL ? logger.config.proc(logger.config.ctx) : NULL;
	if (proc != NULL) {
		text_add(t, " proc=", 6);
		text_add_escaped(t, proc, strlen(proc));
	}
}

static void text_write(struct log_text *t)
{
	if (t->cut) {
		memcpy(t->text + t->len, LOG_CUT_MARK, sizeof(LOG_CUT_MARK) - 1);
		t->len += sizeof(LOG_CUT_MARK) - 1;
	}
	assert(t->len < sizeof(t->text));
	t->text[t->len++] = '\n';
	if (logger.config.write != NULL) {
		logger.config.write(logger.config.ctx, t->text, t->len);
		return;
	}
	/* Write the line with one call, so that lines of several threads do not mix. A failure
	 * cannot be reported anywhere. */
	ssize_t n = write(STDERR_FILENO, t->text, t->len);
	(void)n;
}

static uint64_t log_now(void)
{
	return logger.config.wall_ns != NULL ? logger.config.wall_ns(logger.config.ctx) : 0;
}

/*
 * Reports whether the call site may write a line now. The caller holds the lock. A clock that went
 * back (a new simulation, a clock set by hand) starts a new window. *owed is the number of lines
 * dropped in the window that ended.
 */
static bool site_admit(struct log_site *site, uint64_t now_ns, uint32_t *owed)
{
	*owed = 0;
	assert(site->lines <= LOG_SITE_BURST);
	if (now_ns == 0)
		return true;
	/* a clock that went back gives a huge difference */
	if (now_ns - site->window_ns >= NS_PER_S) {
		*owed = site->suppressed;
		site->suppressed = 0;
		site->window_ns = now_ns;
		site->lines = 0;
	}
	if (site->lines < LOG_SITE_BURST) {
		site->lines++;
		return true;
	}
	if (site->suppressed == 0 && site->next_owing == NULL) {
		site->next_owing = logger.owing != NULL ? logger.owing : site;
		logger.owing = site;
	}
	site->suppressed += site->suppressed < UINT32_MAX;
	return false;
}

static void write_owed(uint64_t now_ns, enum log_level level, const char *event, uint32_t owed)
{
	struct log_text t;
	text_start(&t, now_ns, level, event);
	text_printf(&t, " suppressed=%u", owed);
	text_write(&t);
}

void log_flush(void)
{
	for (;;) {
		pthread_mutex_lock(&logger.lock);
		struct log_site *site = logger.owing;
		struct log_site copy = {0};
		if (site != NULL) {
			/* The last site in the list points to itself, so that NULL means "not in
			 * the list". */
			logger.owing = site->next_owing != site ? site->next_owing : NULL;
			site->next_owing = NULL;
			copy = *site;
			site->suppressed = 0;
		}
		pthread_mutex_unlock(&logger.lock);
		if (site == NULL)
			return;
		if (copy.suppressed > 0)
			write_owed(log_now(), copy.level, copy.event, copy.suppressed);
	}
}

void log_line(struct log_site *site, enum log_level level, const char *event, const char *format,
	      ...)
{
	uint64_t now_ns = log_now();
	uint32_t owed;
	pthread_mutex_lock(&logger.lock);
	site->level = level;
	site->event = event;
	bool admitted = site_admit(site, now_ns, &owed);
	pthread_mutex_unlock(&logger.lock);
	if (owed > 0)
		write_owed(now_ns, level, event, owed);
	if (!admitted)
		return;
	struct log_text t;
	text_start(&t, now_ns, level, event);
	/* as long as a line, so truncation to this buffer cuts no byte that would fit */
	char fields[LOG_LINE_MAX];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(fields, sizeof(fields), format, args);
	va_end(args);
	if (n > 1) /* fields starts with a blank; a blank alone means no fields */
		text_add_escaped(&t, fields, min_u64((uint64_t)n, sizeof(fields) - 1));
	text_write(&t);
}

static bool needs_quotes(const char *text)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len;) {
		size_t n = printable_len(text + i, len - i);
		if (n == 0 || strchr(" \"\\=", text[i]) != NULL)
			return true;
		i += n;
	}
	return len == 0;
}

const char *log_quote(struct log_value *out, const char *text)
{
	static const char cut_end[] = "...\"";
	bool quoted = needs_quotes(text);
	size_t len = strlen(text);
	size_t room = sizeof(out->text) - sizeof(cut_end);
	size_t at = 0;
	if (quoted)
		out->text[at++] = '"';
	for (size_t i = 0; i < len;) {
		char piece[5] = {'\\', text[i], '\0'};
		const char *from = piece;
		size_t step = printable_len(text + i, len - i);
		size_t n = 2;
		if (step == 0) {
			n = escape_byte(piece, (unsigned char)text[i]);
			step = 1;
		} else if (text[i] != '"' && text[i] != '\\') {
			from = text + i;
			n = step;
		}
		if (n > room - at) {
			memcpy(out->text + at, "...", 3);
			at += 3;
			break;
		}
		memcpy(out->text + at, from, n);
		at += n;
		i += step;
	}
	if (quoted)
		out->text[at++] = '"';
	out->text[at] = '\0';
	return out->text;
}
