// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * flistxattr() of a tmpfs file in a loop.
 *
 * One op is one flistxattr() on an open file that has --names user.*
 * attributes, each name of 17 characters, into a buffer of exactly the list's
 * length (the kernel allocates as much as the caller offers). A round is one
 * window.
 *
 * After it: each call returned the exact length; the last one's names were
 * those created, each once.
 *
 * Build: cc -O2 -o flistxattr flistxattr.c
 * Run:   ./flistxattr                    (rows on stdout, see --help)
 */
#include "regbundle.h"
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define MAX_NAMES	64
#define PREFIX		"user."
#define NAME_SIZE	sizeof(PREFIX "regbundle.00")
#define LIST_SIZE	4096	/* offered: the kernel allocates as much */

const char workload[] = "flistxattr";

enum { NAMES = OWN, CALLS };

/* A round of about 4 ms: what comes and goes inside it no canary sees. */
struct parameter parameters[] = {
	COMMON_PARAMETERS,
	{ "--names", 16, 1, MAX_NAMES },
	{ "--calls", 8192, 64, 1000000 },
	{ NULL, 0, 0, 0 },
};

enum { CALLS_OK, WRONG_LENGTH, WRONG_NAMES };

char counters[COLUMNS][NAME] = {
	"calls_ok", "wrong_length", "wrong_names"
};

static char names[MAX_NAMES][NAME_SIZE];
static int file;
static char *list;
static long length;
static long others;	/* bytes of names not of users: labels, ACLs */

/* False and errno when `file` is no tmpfs file or takes no user.* names. */
static bool takes_names(void)
{
	struct statfs fs;

	if (fstatfs(file, &fs))
		return false;
	if (fs.f_type != TMPFS_MAGIC) {
		errno = EMEDIUMTYPE;
		return false;
	}
	others = syscall(SYS_flistxattr, file, NULL, 0);
	for (unsigned long i = 0; i < parameters[NAMES].value; i++)
		if (others < 0 || fsetxattr(file, names[i], "", 0, 0))
			return false;
	return true;
}

/* An unnamed file in the first directory that will do. */
static void open_file(void)
{
	const char *dirs[] = { "/dev/shm", getenv("TMPDIR"), "/tmp" };

	for (unsigned i = 0; i < 3; i++) {
		if (!dirs[i])
			continue;
		file = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (file >= 0 && takes_names())
			return;
		warnx("%s: %s", dirs[i], errno == EMEDIUMTYPE ?
		      "not a tmpfs" : strerror(errno));
		close(file);
	}
	errx(SKIP, "no tmpfs that takes user.* attributes: looked in /dev/shm, "
	     "$TMPDIR and /tmp; needs Linux 6.6 with CONFIG_TMPFS_XATTR");
}

static void prepare(void)
{
	for (unsigned i = 0; i < MAX_NAMES; i++)
		snprintf(names[i], NAME_SIZE, PREFIX "regbundle.%02u", i);
	open_file();
	length = others + parameters[NAMES].value * NAME_SIZE;
	if (length > LIST_SIZE)
		errx(FAIL, "the list is %ld bytes, offered are %d", length,
		     LIST_SIZE);
	list = map(LIST_SIZE + 1, -1, 0);	/* a zero ends it in any case */
}

/* Names unknown, twice or missing; those not of users count by length. */
static u64 wrong_names(void)
{
	bool seen[MAX_NAMES] = { 0 };
	u64 wrong = 0;
	long rest = others;
	unsigned n = parameters[NAMES].value;

	for (char *at = list; at < list + length; at += strlen(at) + 1) {
		unsigned i = 0;

		while (i < n && strcmp(at, names[i]))
			i++;
		if (i < n && !seen[i])
			seen[i] = true;
		else if (i < n || !*at || !strncmp(at, PREFIX, strlen(PREFIX)))
			wrong++;
		else
			rest -= strlen(at) + 1;
	}
	for (unsigned i = 0; i < n; i++)
		wrong += !seen[i];
	return wrong + (rest != 0);
}

static void run_round(struct row *row)
{
	unsigned long calls = parameters[CALLS].value;
	u64 ok = 0, begin;

	memset(list, 0, LIST_SIZE);
	begin = now_ns();
	for (unsigned long i = 0; i < calls; i++)
		ok += syscall(SYS_flistxattr, file, list, LIST_SIZE) ==
		      length;
	row->elapsed = now_ns() - begin;
	row->ops = calls;
	row->counters[CALLS_OK] = ok;
	row->counters[WRONG_LENGTH] = calls - ok;
	row->counters[WRONG_NAMES] = wrong_names();
}
