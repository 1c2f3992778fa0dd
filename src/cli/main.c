// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fs.h"

struct command {
	const char *name;
	const char *help;
	int (*run)(int argc, char **argv);
	const char *words; /* verbs that may follow the command, for completion; NULL: none */
};

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

/* Commands on files have a table of their own: fs.h. */
static const struct command cluster_commands[] = {
	{"up", "make a cluster in a folder, or start it again", cmd_up, ""},
	{"down", "end the cluster in a folder", cmd_down, ""},
	{"status", "show nodes, disks, space and health", cmd_status, ""},
	{"df", "show the space of disks and flash", cmd_df, ""},
	{"plan", "make settings and credentials of a cluster on several machines", cmd_plan, ""},
	{"doctor", "look for what is wrong with this machine, its settings and the cluster",
	 cmd_doctor, ""},
	{"support", "collect what helps to find a fault, without secrets", cmd_support, ""},
	{"fsck", "check every file down to its chunks", cmd_fsck, ""},
	{"tenant", "list, create and remove tenants, set their quotas", cmd_tenant,
	 "list create quota remove"},
	{"gc", "show what was deleted and still takes space; free it soon", cmd_gc,
	 "status now hold resume"},
	{"group", "list and set traffic groups and their quotas", cmd_group,
	 "list add set remove capacity"},
	{"user", "list, add and remove users; their credentials and grants", cmd_user,
	 "list show add grant revoke rotate disable enable remove"},
	{"access", "tell whether a user may do something, and by which grant", cmd_access, "test"},
	{"key", "replace the keys of tokens", cmd_key, "show rotate"},
	{"top", "show what each traffic group uses now", cmd_top, ""},
	{"policy", "choose the encoding that sealed files get later", cmd_policy, "list set clear"},
	{"node", "list, drain and remove storage nodes; serve the disks of this machine", cmd_node,
	 "list drain online remove format"},
	{"rack", "list, drain and remove whole racks", cmd_rack, "list drain online remove"},
	{"disk", "list, drain, replace and rebuild disks", cmd_disk,
	 "list online drain fail remove give-up replace rebuild losses"},
	{"repair", "show what is left to repair, and how long it will take", cmd_repair, "status"},
};
static const struct command server_commands[] = {
	{"meta", "serve metadata", cmd_meta, "format check backup backups restore verify"},
	{"janitor", "collect, repair, drain and verify in the background", cmd_janitor, ""},
	{"cache", "serve a flash cache in front of all disks; show and tune the cache nodes",
	 cmd_cache, "status set"},
	{"box", "serve all roles of a cluster in a folder", cmd_box, ""},
	{"chunk", "put, get, list and scan chunks of one node", cmd_chunk,
	 "put append seal fence get stat list scan delete"},
	{"config", "print the effective configuration of a process", cmd_config,
	 "show check meta node janitor cache"},
};
static const struct command study_commands[] = {
	{"durability", "compare codes, placements and repair methods", cmd_durability,
	 "burst nines repair trace compare advise encode"},
	{"placement", "choose flash or disk for new files: traces, models, savings", cmd_placement,
	 "generate"},
	{"prep", "preprocess images near the data: what it costs, when it pays", cmd_prep,
	 "measure plan"},
	{"train", "train on emulated accelerators: what the storage lets them do", cmd_train, ""},
	{"cachesim", "simulate the flash cache of training jobs under its policies", cmd_cachesim,
	 ""},
	{"emu", "list, show and measure profiles of accelerators", cmd_emu, "models show profile"},
	{"code", "explain an erasure code: overhead, tolerance, layout, repair", cmd_code,
	 "explain"},
};
static const struct command other_commands[] = {
	{"completion", "print a completion script for a shell", cmd_completion, "bash zsh fish"},
	{"help", "this list, or the help of one command", cmd_help, NULL},
	{"version", "print the version", cmd_version, ""},
};

static const struct command dataset_commands[] = {
	{"job", "register training jobs, and see what they do", cmd_job,
	 "add list show progress done rm top"},
	{"dataset", "build, show, verify and remove data sets", cmd_dataset,
	 "build append list show verify rm"},
};

static const struct {
	const char *title;
	const struct command *commands;
	size_t count;
} groups[] = {
	{"data sets", dataset_commands, ARRAY_LEN(dataset_commands)},
	{"the cluster", cluster_commands, ARRAY_LEN(cluster_commands)},
	{"servers and their parts", server_commands, ARRAY_LEN(server_commands)},
	{"studies", study_commands, ARRAY_LEN(study_commands)},
	{"other", other_commands, ARRAY_LEN(other_commands)},
};

static const struct command *find_command(const char *name)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++)
		for (size_t i = 0; i < groups[g].count; i++)
			if (strcmp(groups[g].commands[i].name, name) == 0)
				return &groups[g].commands[i];
	return NULL;
}

static void print_commands(FILE *out)
{
	const struct fs_command *f;
	fputs("usage: terrane COMMAND [arguments]\n\nTerrane, a composite storage fabric for "
	      "machine-learning training.\n\nfiles\n",
	      out);
	for (size_t i = 0; (f = fs_at(i)) != NULL; i++)
		fprintf(out, "  %-10s %s\n", f->name, f->summary);
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		fprintf(out, "\n%s\n", groups[g].title);
		for (size_t i = 0; i < groups[g].count; i++)
			fprintf(out, "  %-10s %s\n", groups[g].commands[i].name,
				groups[g].commands[i].help);
	}
	fputs("\n\"terrane help COMMAND\" prints the help of a command.\n", out);
}

static int run_command(const char *name, int argc, char **argv)
{
	const struct command *c = find_command(name);
	char help[] = "--help";
	char *args[] = {argv[0], help, NULL};
	/* -h of df is human sizes, as of the commands on files. */
	if (c != NULL && c->run != cmd_df && argc == 2 && strcmp(argv[1], "-h") == 0)
		return c->run(2, args);
	if (c != NULL)
		return c->run(argc, argv);
	if (fs_find(name) != NULL)
		return cmd_fs(argc, argv);
	return cli_usage("unknown command \"%s\"", name);
}

static int cmd_help(int argc, char **argv)
{
	if (argc < 2) {
		print_commands(stdout);
		return CLI_OK;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		puts("usage: terrane help [COMMAND]\n\nPrints all commands, or the help of one.");
		return CLI_OK;
	}
	char *args[] = {argv[1], (char[]){"--help"}, NULL};
	return run_command(argv[1], 2, args);
}

static int cmd_version(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		puts("usage: terrane version [--json]\n\nPrints the version.");
	else if (argc > 1 && !json)
		return cli_usage("version: unexpected argument \"%s\"", argv[argc - 1]);
	else
		printf(json ? "{\"version\": \"%s\"}\n" : "terrane %s\n", TERRANE_VERSION);
	return CLI_OK;
}

const char *cli_command_at(size_t i, const char **words)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		if (i < groups[g].count) {
			*words = groups[g].commands[i].words;
			return groups[g].commands[i].name;
		}
		i -= groups[g].count;
	}
	return NULL;
}

const char *cli_command_help(const char *name)
{
	const struct command *c = find_command(name);
	return c != NULL ? c->help : "";
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_commands(stderr);
		return CLI_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	else if (strcmp(name, "--version") == 0)
		name = "version";
	int status = run_command(name, argc - 1, argv + 1);
	/* A full disk or a closed pipe loses output that printf only buffered. */
	if (fflush(stdout) != 0 && status == CLI_OK)
		return cli_fail("cannot write the output");
	return status;
}
