// SPDX-License-Identifier: Apache-2.0
/*
 * terrane completion: scripts for bash, zsh and fish, from the tables of commands. The scripts ask
 * `terrane completion paths` for the paths of the cluster that begin with what was typed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/fs.h"

#define PAGE 512
#define PAGES_MAX 40     /* of a directory that is searched for what was typed */
#define MATCHES_MAX 200  /* paths that are offered */
#define CONNECT_MS 1000u /* a shell must not wait long for a cluster that is down */

/* --- paths of the cluster ----------------------------------------------------------------------- */

/* Prints the entries of a directory whose names begin with `begin`. */
static void print_matches(struct terrane *t, const char *dir, const char *begin)
{
	static struct terrane_entry page[PAGE];
	struct terrane_cursor at = {0};
	size_t len = strlen(begin);
	int matches = 0;
	for (int i = 0; i < PAGES_MAX && matches < MATCHES_MAX; i++) {
		int64_t n = terrane_list(t, dir, &at, page, PAGE, NULL);
		for (int64_t j = 0; j < n && matches < MATCHES_MAX; j++) {
			if (strncmp(page[j].name, begin, len) != 0 ||
			    strchr(page[j].name, '\n') != NULL)
				continue;
			printf("%s%s%s\n", dir, page[j].name,
			       page[j].kind == TERRANE_DIRECTORY ? "/" : "");
			matches++;
		}
		if (n < PAGE)
			return;
	}
}

/* Prints nothing after an error: there is nothing to offer. */
static int print_paths(const char *cluster, const char *typed)
{
	char dir[FS_PATH_MAX];
	const char *slash = strrchr(typed, '/');
	const char *begin = slash != NULL ? slash + 1 : typed;
	struct terrane_open_options o = {.connect_timeout_ms = CONNECT_MS, .threads = 1};
	struct terrane *t = NULL;
	if (begin - typed >= FS_PATH_MAX - 1)
		return CLI_OK;
	snprintf(dir, sizeof(dir), "%.*s", (int)(begin - typed), typed);
	if (dir[0] == 0)
		snprintf(dir, sizeof(dir), "/");
	if (terrane_open(&t, cluster, &o) == 0)
		print_matches(t, dir, begin);
	terrane_close(t);
	return CLI_OK;
}

/* --- bash and zsh --------------------------------------------------------------------------------- */

/* What the operands of a command on files are: cluster, local or both. */
static const char *operands_of(const struct fs_command *f)
{
	if (strcmp(f->name, "attr") == 0 || strcmp(f->name, "quota") == 0)
		return "remote";
	switch (f->remote) {
	case FS_REMOTE_ALL:
		return "remote";
	case FS_REMOTE_LAST:
		return "put";
	case FS_REMOTE_SOURCES:
		return "get";
	default:
		return strcmp(f->name, "sync") == 0 ? "both" : "none";
	}
}

static const char *verbs_of(const struct fs_command *f)
{
	return strcmp(f->name, "bench") == 0   ? "write read files fetch meta "
	       : strcmp(f->name, "attr") == 0  ? "list get set remove "
	       : strcmp(f->name, "quota") == 0 ? "list show set clear "
					       : "";
}

/* Prints a case of the script for each command. Options of commands on files come from their table, options of the
 * others from the help that the command prints. */
static int print_cases(void)
{
	const struct fs_command *f;
	const char *name, *words;
	for (size_t i = 0; (f = fs_at(i)) != NULL; i++) {
		AUTO_STRBUF struct strbuf options;
		strbuf_init(&options, 4096);
		if (fs_option_words(f, &options) < 0)
			return -1;
		printf("\t%s) operands=%s verbs=\"%s\" offered=\"%s\" ;;\n", f->name,
		       operands_of(f), verbs_of(f), strbuf_text(&options));
	}
	for (size_t i = 0; (name = cli_command_at(i, &words)) != NULL; i++)
		if (words != NULL)
			printf("\t%s) offered=\"%s $(_terrane_options %s)\" ;;\n", name, words,
			       name);
	return 0;
}

static void print_commands_line(void)
{
	const struct fs_command *f;
	const char *name, *words;
	fputs("\tlocal commands=\"", stdout);
	for (size_t i = 0; (f = fs_at(i)) != NULL; i++)
		printf("%s ", f->name);
	for (size_t i = 0; (name = cli_command_at(i, &words)) != NULL; i++)
		printf("%s ", name);
	puts("\"");
}

static const char bash_begin[] =
	"_terrane_options()\n{\n"
	"\tterrane help \"$1\" 2>/dev/null | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u | tr '\\n' "
	"' '\n"
	"}\n"
	"_terrane_remote() # offers the paths of the cluster that begin with $1\n{\n"
	"\tlocal found i cluster=\"\"\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tcase \"${COMP_WORDS[i]}\" in -c | --cluster) cluster=\"${COMP_WORDS[i + 1]}\" ;; "
	"esac\n"
	"\tdone\n"
	"\twhile IFS= read -r found; do COMPREPLY+=(\"$found\"); done < <(\n"
	"\t\tterrane completion paths ${cluster:+--cluster \"$cluster\"} -- \"$1\" 2>/dev/null)\n"
	"\t[ ${#COMPREPLY[@]} -eq 0 ] || compopt -o nospace -o filenames 2>/dev/null\n"
	"}\n"
	"_terrane_local()\n{\n"
	"\tlocal found\n"
	"\twhile IFS= read -r found; do COMPREPLY+=(\"$found\"); done < <(compgen -f -- \"$1\")\n"
	"\t[ ${#COMPREPLY[@]} -eq 0 ] || compopt -o filenames 2>/dev/null\n"
	"}\n"
	"_terrane()\n{\n"
	"\tlocal offered=\"\" operands=\"\" verbs=\"\" here=\"${COMP_WORDS[COMP_CWORD]}\"\n";

static const char bash_middle[] =
	"\tcase \"$COMP_CWORD:${COMP_WORDS[1]}\" in\n"
	"\t1:* | 2:help) COMPREPLY=($(compgen -W \"$commands\" -- \"$here\")); return ;;\n"
	"\tesac\n"
	"\tcase \"${COMP_WORDS[COMP_CWORD - 1]}\" in\n"
	"\t--emulate) offered=\"hdd sata nvme none\" ;;\n"
	"\t--repair) offered=\"r_all r_fco r_hyb r_min\" ;;\n"
	"\t--scheme) offered=\"c/c c/d c/s d/c d/d d/s\" ;;\n"
	"\t--metadata) offered=\"rocksdb rados:\" ;;\n"
	"\t--pattern) offered=\"seq random create stat list remove\" ;;\n"
	"\t--encoding) offered=\"r2 r3 rs:4+2 rs:9+6 lrc:12+2+2 mlec:4+2/4+1\" ;;\n"
	"\t--media) offered=\"disk flash flash-or-disk\" ;;\n"
	"\t--dir | --cluster | -c | --config) return ;; # files\n"
	"\tesac\n"
	"\t[ -n \"$offered\" ] || case \"${COMP_WORDS[1]}\" in\n";

static const char bash_end[] =
	"\tesac\n"
	"\tCOMPREPLY=()\n"
	"\tif [ -n \"$verbs\" ] && [ \"$COMP_CWORD\" -eq 2 ]; then offered=\"$verbs$offered\" "
	"operands=none; fi\n"
	"\tcase \"$here:$operands:$COMP_CWORD\" in\n"
	"\t-*) ;;\n"
	"\t*:remote:* | *:get:2) _terrane_remote \"$here\" ;;\n"
	"\t*:put:2) _terrane_local \"$here\" ;;\n"
	"\t*:put:* | *:get:* | *:both:*) _terrane_local \"$here\"; _terrane_remote \"$here\" ;;\n"
	"\tesac\n"
	"\t[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -W \"$offered\" -- \"$here\"))\n"
	"}\n"
	"complete -o default -F _terrane terrane\n";

static int print_bash(bool zsh)
{
	if (zsh)
		fputs("autoload -Uz compinit bashcompinit\n"
		      "(( $+functions[compdef] )) || compinit -u\n"
		      "bashcompinit\n",
		      stdout);
	fputs(bash_begin, stdout);
	print_commands_line();
	fputs(bash_middle, stdout);
	if (print_cases() < 0)
		return cli_fail("out of memory");
	fputs(bash_end, stdout);
	return CLI_OK;
}

/* --- fish ----------------------------------------------------------------------------------------- */

static const char fish_begin[] =
	"function __terrane_paths # the paths of the cluster that begin with the current word\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l cluster\n"
	"\tfor i in (seq 2 (math (count $words) - 1))\n"
	"\t\tcontains -- $words[$i] -c --cluster; and set cluster --cluster $words[(math $i + 1)]\n"
	"\tend\n"
	"\tterrane completion paths $cluster -- (commandline -ct) 2>/dev/null\n"
	"end\n"
	"function __terrane_options # the options of a command, from its help\n"
	"\tterrane help $argv[1] 2>/dev/null | string match -ra -- '--[a-z][a-z0-9-]*' | sort -u\n"
	"end\n"
	"complete -c terrane -f\n";

static void fish_case(const char *name, const char *about, const char *verbs)
{
	printf("complete -c terrane -n __fish_use_subcommand -a %s -d \"%s\"\n", name, about);
	printf("complete -c terrane -n '__fish_seen_subcommand_from %s' -a '(__terrane_options "
	       "%s)'\n",
	       name, name);
	if (verbs != NULL && verbs[0] != 0)
		printf("complete -c terrane -n '__fish_seen_subcommand_from %s' -a '%s'\n", name,
		       verbs);
}

static void print_fish(void)
{
	const struct fs_command *f;
	const char *name, *words;
	fputs(fish_begin, stdout);
	for (size_t i = 0; (f = fs_at(i)) != NULL; i++) {
		const char *operands = operands_of(f);
		bool local = strcmp(operands, "remote") != 0 && strcmp(operands, "none") != 0;
		fish_case(f->name, f->summary, verbs_of(f));
		if (strcmp(operands, "none") != 0)
			printf("complete -c terrane -n '__fish_seen_subcommand_from %s' -a "
			       "'(__terrane_paths)'\n",
			       f->name);
		if (local)
			printf("complete -c terrane -n '__fish_seen_subcommand_from %s' -F\n",
			       f->name);
	}
	for (size_t i = 0; (name = cli_command_at(i, &words)) != NULL; i++)
		fish_case(name, cli_command_help(name), words);
}

/* --- the command ---------------------------------------------------------------------------------- */

static const char usage[] = "usage: terrane completion bash|zsh|fish\n\n"
			    "Prints a completion script, which also completes paths of the "
			    "cluster. Put one of these lines\n"
			    "into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish:\n"
			    "  source <(terrane completion bash)\n"
			    "  source <(terrane completion zsh)\n"
			    "  terrane completion fish | source\n";

int cmd_completion(int argc, char **argv)
{
	const char *shell = argc > 1 ? argv[1] : "";
	if (strcmp(shell, "paths") == 0) {
		bool cluster = argc == 6 && strcmp(argv[2], "--cluster") == 0;
		return argc == 4 || cluster ? print_paths(cluster ? argv[3] : NULL, argv[argc - 1])
					    : CLI_USAGE;
	}
	if (argc == 2 && strcmp(shell, "bash") == 0)
		return print_bash(false);
	if (argc == 2 && strcmp(shell, "zsh") == 0)
		return print_bash(true);
	if (argc == 2 && strcmp(shell, "fish") == 0) {
		print_fish();
		return CLI_OK;
	}
	bool help = argc == 2 && strcmp(shell, "--help") == 0;
	fputs(usage, help ? stdout : stderr);
	return help ? CLI_OK : CLI_USAGE;
}
