#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first hour of a new user, with nothing but the program in the path and an empty folder: a cluster, files in and out,
# what a shell is expected to do, mistakes and their messages, and the end. Any surprise ends the script.
set -euo pipefail

say() { printf '== %s\n' "$*"; }
must() { # TEXT: standard input has the text
	local all
	all=$(cat)
	case "$all" in *"$1"*) ;; *) printf 'no "%s" in:\n%s\n' "$1" "$all"; exit 1 ;; esac
}
fails() { # TEXT COMMAND...: the command fails with 1 or 2 and a message that has the text
	local text=$1 status=0
	shift
	"$@" >/dev/null 2>message || status=$?
	[ $status -eq 1 ] || [ $status -eq 2 ] || { echo "exit status $status: $*"; exit 1; }
	must "$text" <message
}

say "what is there"
fails "usage: terrane COMMAND" terrane
terrane help | must "make a cluster in a folder"
terrane help put | must "--resume"
terrane version | must "terrane "
fails "unknown command" terrane frobnicate
fails "terrane up" terrane ls # there is no cluster yet, and the message says how to get one

say "a cluster"
terrane up --dir box --racks 3 --disks 1 --encoding r2 >/dev/null
fails "cluster.ini" terrane ls
export TERRANE_CLUSTER=box/cluster.ini
terrane status | must "healthy"

say "a folder of files"
mkdir -p photos/cats photos/dogs
for i in 1 2 3; do head -c 3000 /dev/urandom >"photos/cats/$i.jpg"; done
head -c 2500000 /dev/urandom >photos/dogs/large.png
printf 'hello\n' >photos/readme.txt
chmod 640 photos/readme.txt
touch -d 2024-02-03T04:05:06Z photos/readme.txt
terrane put -q photos /photos >/dev/null
terrane ls / | must "photos/"
terrane ls -l /photos | must "-rw-r-----"
terrane ls -l /photos | must "2024-02-03T04:05:06Z"
terrane tree /photos | must "2 directories, 5 files"
terrane du -s -h /photos | must "MiB"
terrane find /photos --name '*.jpg' --size +1kB | must "/photos/cats/2.jpg"
terrane cat /photos/readme.txt | must "hello"

say "the same files back"
terrane get -q /photos back >/dev/null
diff -r photos back
[ "$(stat -c '%a %Y' back/readme.txt)" = "640 $(date -d 2024-02-03T04:05:06Z +%s)" ]
fails "exists already" terrane get -q /photos/readme.txt back/readme.txt
terrane get -q --resume /photos back | must "5 skipped as complete"

say "as in a shell"
terrane cp -r /photos /copy
terrane mv /copy/cats /copy/felines
fails "-r" terrane rm /copy
terrane rm -r /copy
printf 'from a pipe' | terrane put - /piped
terrane get /piped - | must "from a pipe"
terrane touch /empty
terrane attr set /piped source=pipe mode=600
terrane attr list /piped | must "source pipe"
terrane rm /piped /empty
terrane ls '/photos/cats/*.jpg' | must "3.jpg"
rm photos/cats/1.jpg && printf 'more' >>photos/readme.txt
terrane sync -n --delete photos /photos | must "remove /photos/cats/1.jpg"
terrane sync -q --delete photos /photos | must "1 removed"
terrane get -q /photos again >/dev/null && diff -r photos again

say "mistakes"
fails "does not exist" terrane cat /photo
fails "-p" terrane mkdir /a/b/c
fails '".."' terrane ls /photos/../photos
fails "UTF-8" terrane mkdir $'/caf\xe9'
fails "root" terrane rm -r /
fails "exists" terrane put -q photos/readme.txt /photos/readme.txt

say "what an operator shows"
terrane status --json | must '"nodes"'
terrane fsck >/dev/null
terrane disk list | must "node-1/1"

say "the end, and again"
terrane down --dir box >/dev/null
fails "" terrane ls
terrane up --dir box >/dev/null
terrane cat /photos/readme.txt | must "hello"
terrane down --dir box >/dev/null
say "done"
