/* SPDX-License-Identifier: MIT */
/*
 * tarn completion: what a shell needs to complete the command's words. The
 * idea: the script is made from the tables of verbs and options, each time that
 * a shell starts, so it knows exactly what this program knows. bash and zsh
 * share the part that the tables make; fish has a language of its own.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/verbs.h"

/* ---- what a verb takes ----------------------------------------------- */

static bool takes_files(const struct usage *usage)
{
	return strstr(usage->arguments, "FILE") ||
	       strstr(usage->arguments, "DST");
}

/* The verbs that list what its arguments may be, or NULL. */
static const char *takes_names(const struct usage *usage)
{
	if (!strstr(usage->arguments, "NAME") &&
		!strstr(usage->arguments, "PREFIX"))
		return NULL;
	return strncmp(usage->verb, "channel ", 8) == 0 ? "channel ls" : "ls";
}

static const char *takes_words(const struct usage *usage)
{
	return strcmp(usage->verb, "completion") == 0 ? "bash zsh fish" : NULL;
}

/* Verbs parse their line before they do anything else; so options_observe()
 * has each tell its usage. */
static void ask(const struct verb *verb)
{
	char *args[] = {(char *)verb->name, NULL};

	verb->run(1, args);
}

static void put_names(const struct verb *verbs)
{
	for (; verbs->name; verbs++)
		printf("%s ", verbs->name);
}

/* ---- bash and zsh ---------------------------------------------------- */

static void put_usage(void *arg, const struct usage *usage)
{
	const char *names = takes_names(usage), *words = takes_words(usage);

	(void)arg;
	fputs("\t\tknown=\"", stdout);
	for (size_t i = 0; usage->options[i].name; i++)
		printf("--%s ", usage->options[i].name);
	printf("--help%s%s\"\n", words ? " " : "", words ? words : "");
	if (names)
		printf("\t\tnames=\"%s\"\n", names);
	if (takes_files(usage))
		fputs("\t\tfiles=1\n", stdout);
	fputs("\t\t;;\n", stdout);
}

static void put_verbs(const struct verb *verbs, const char *of)
{
	for (; verbs->name; verbs++) {
		printf("\t\"%s%s%s\")\n", of, *of ? " " : "", verbs->name);
		if (verbs->verbs) {
			fputs("\t\tknown=\"--help\"\n\t\t;;\n", stdout);
			put_verbs(verbs->verbs, verbs->name);
		} else {
			ask(verbs);
		}
	}
}

/* From the words of the line, $verb and $inner behind it, and from how many
 * there are before the one that is being typed, $typed: what may stand there,
 * $known, what lists further ones, $names, and whether files do, $files. */
static void put_choice(void)
{
	fputs("\tlocal at=1 known= names= files=\n\n"
	      "\tif [ \"$verb\" = help ] && [ \"$typed\" -gt 1 ]; then\n"
	      "\t\tverb=\n"
	      "\tfi\n",
		stdout);
	for (const struct verb *v = cli_verbs; v->name; v++) {
		if (!v->verbs)
			continue;
		printf("\tif [ \"$verb\" = %s ] && [ \"$typed\" -gt 1 ]; then\n"
		       "\t\tat=2 verb=\"%s $inner\" known=\"",
			v->name, v->name);
		put_names(v->verbs);
		fputs("--help\"\n\tfi\n", stdout);
	}
	fputs("\tif [ \"$typed\" -le \"$at\" ]; then\n"
	      "\t\t[ \"$known\" ] || known=\"",
		stdout);
	put_names(cli_verbs);
	fputs("help version\"\n\t\tverb=\n\tfi\n\tcase $verb in\n", stdout);
	options_observe(put_usage, NULL);
	put_verbs(cli_verbs, "");
	fputs("\t\"\")\n\t\t[ \"$known\" ] || known=\"", stdout);
	put_names(cli_verbs);
	fputs("\"\n\t\t;;\n\tesac\n"
	      "\tcase $cur in -*) names= files= ;; esac\n",
		stdout);
}

static void put_bash(void)
{
	fputs("# Completes the words of tarn(1): eval \"$(tarn completion "
	      "bash)\"\n"
	      "_tarn() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} typed=$COMP_CWORD\n"
	      "\tlocal verb=${COMP_WORDS[1]} inner=${COMP_WORDS[2]}\n",
		stdout);
	put_choice();
	fputs("\tCOMPREPLY=()\n"
	      "\tif [ \"$names\" ]; then\n"
	      "\t\tnames=$(tarn $names -- \"$cur\" 2>/dev/null |\n"
	      "\t\t\tcut -d ' ' -f 1)\n"
	      "\tfi\n"
	      "\tmapfile -t COMPREPLY < <(\n"
	      "\t\tcompgen -W \"$known $names\" -- \"$cur\"\n"
	      "\t\t[ -z \"$files\" ] || compgen -f -- \"$cur\"\n"
	      "\t)\n"
	      "}\n"
	      "complete -o bashdefault -o default -F _tarn tarn\n",
		stdout);
}

static void put_zsh(void)
{
	fputs("# Completes the words of tarn(1), after compinit: eval "
	      "\"$(tarn "
	      "completion zsh)\"\n"
	      "_tarn() {\n"
	      "\tlocal cur=${words[CURRENT]} typed=$((CURRENT - 1))\n"
	      "\tlocal verb=${words[2]} inner=${words[3]}\n"
	      "\tlocal -a found\n",
		stdout);
	put_choice();
	fputs("\tif [ \"$names\" ]; then\n"
	      "\t\tfound=(${(f)\"$(tarn ${=names} -- \"$cur\" 2>/dev/null |\n"
	      "\t\t\tcut -d ' ' -f 1)\"})\n"
	      "\tfi\n"
	      "\tcompadd -- ${=known} $found\n"
	      "\t[ -z \"$files\" ] || _files\n"
	      "}\n"
	      "compdef _tarn tarn\n",
		stdout);
}

/* ---- fish ------------------------------------------------------------- */

/* The first line of a text, quoted. */
static void put_quoted(const char *text)
{
	putchar('\'');
	for (; *text && *text != '\n'; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('\'');
}

static void put_fish_row(const char *verb, const struct option_row *row)
{
	printf("complete -c tarn -n '__tarn_is %s' -s %c -l %s %s-d ", verb,
		row->letter, row->name, row->value ? "-r " : "");
	put_quoted(row->help);
	putchar('\n');
}

static void put_fish_usage(void *arg, const struct usage *usage)
{
	const struct option_row help = {
		.name = "help", .letter = 'h', .help = "print what it does"};
	const char *names = takes_names(usage), *words = takes_words(usage);

	(void)arg;
	for (size_t i = 0; usage->options[i].name; i++)
		put_fish_row(usage->verb, &usage->options[i]);
	put_fish_row(usage->verb, &help);
	if (words)
		printf("complete -c tarn -n '__tarn_is %s' -a '%s'\n",
			usage->verb, words);
	if (names)
		printf("complete -c tarn -n '__tarn_is %s' -a "
		       "'(__tarn_names %s)'\n",
			usage->verb, names);
	if (takes_files(usage))
		printf("complete -c tarn -n '__tarn_is %s' -F\n", usage->verb);
}

static void put_fish_verb(const char *of, const char *name, const char *help)
{
	printf("complete -c tarn -n '__tarn_stands %s' -a %s -d ", of, name);
	put_quoted(help);
	putchar('\n');
}

static void put_fish_verbs(const struct verb *verbs, const char *of)
{
	for (; verbs->name; verbs++) {
		put_fish_verb(of, verbs->name, verbs->help);
		if (!*of)
			put_fish_verb("help", verbs->name, verbs->help);
		if (verbs->verbs)
			put_fish_verbs(verbs->verbs, verbs->name);
		else
			ask(verbs);
	}
}

static void put_fish(void)
{
	fputs("# Completes the words of tarn(1): tarn completion fish | "
	      "source\n"
	      "# Are these all the words before the one that is being typed?\n"
	      "function __tarn_stands\n"
	      "\tset -l typed (commandline -opc)\n"
	      "\ttest \"$typed[2..-1]\" = \"$argv\"\n"
	      "end\n"
	      "# Are these the first of them?\n"
	      "function __tarn_is\n"
	      "\tset -l typed (commandline -opc)\n"
	      "\ttest (count $typed) -gt (count $argv)\n"
	      "\tand test \"$typed[2..\"(math 1 + (count $argv))\"]\" = "
	      "\"$argv\"\n"
	      "end\n"
	      "function __tarn_names\n"
	      "\ttarn $argv -- (commandline -ct) 2>/dev/null |\n"
	      "\t\tstring replace -r ' .*' ''\n"
	      "end\n"
	      "complete -c tarn -e\n"
	      "complete -c tarn -f\n",
		stdout);
	options_observe(put_fish_usage, NULL);
	put_fish_verbs(cli_verbs, "");
	put_fish_verb("", "help", "print what a command does");
	put_fish_verb("", "version", "print the version");
}

/* ---- the verb ---------------------------------------------------------- */

static const struct {
	const char *name;
	void (*put)(void);
} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

int cmd_completion(int argc, char **argv)
{
	const struct option_row rows[] = {{0}};
	const struct usage usage = {.verb = "completion",
		.arguments = "bash|zsh|fish",
		.about = "Prints a script that completes verbs, options, files "
			 "and published names.\n"
			 "In ~/.bashrc:  eval \"$(tarn completion bash)\"\n"
			 "In ~/.zshrc, after compinit:  eval \"$(tarn "
			 "completion zsh)\"\n"
			 "In ~/.config/fish/config.fish:  tarn completion fish "
			 "| source",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (strcmp(args[0], shells[i].name) == 0) {
			shells[i].put();
			return EXIT_DONE;
		}
	return usage_failed(&usage,
		"there is none for '%s'; the shells are: bash, zsh, fish",
		args[0]);
}
