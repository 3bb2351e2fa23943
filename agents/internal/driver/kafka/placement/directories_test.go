// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const mebi = 1 << 20

// two directories of volumes of 100 MiB.
func two() []Directory {
	return []Directory{{Path: "/a", Size: 100 * mebi, Free: 50 * mebi}, {Path: "/b", Size: 100 * mebi, Free: 50 * mebi}}
}

func in(state DirectoryState) []Directory {
	all := two()
	all[1].State = state
	return all
}

// stored has replicas of these sizes, in MiB, in a directory.
func stored(directory string, sizes ...int64) []Stored {
	var all []Stored
	for i, size := range sizes {
		all = append(all, Stored{Topic: "t" + directory[1:], Partition: int32(i), Directory: directory, Bytes: size * mebi})
	}
	return all
}

func copying(replicas []Stored, to string) []Stored {
	for i := range replicas {
		replicas[i].Future = to
	}
	return replicas
}

func TestPlanDirectories(t *testing.T) {
	for name, test := range map[string]struct {
		directories []Directory
		replicas    []Stored
		want        string
	}{
		"nothing is there":                   {two(), nil, ""},
		"both hold the same":                 {two(), slices.Concat(stored("/a", 10, 5), stored("/b", 5, 10)), ""},
		"a new volume gets its half":         {two(), stored("/a", 10, 10, 10, 10), "ta-0 /b, ta-1 /b"},
		"so it does where all are empty":     {two(), stored("/a", 0, 0, 0, 0), "ta-0 /b, ta-1 /b"},
		"one alone stays":                    {two(), stored("/a", 10), ""},
		"a few more are left as they are":    {two(), slices.Concat(stored("/a", 10, 10, 1), stored("/b", 10, 10)), ""},
		"a large one does not change places": {two(), slices.Concat(stored("/a", 30, 3), stored("/b", 10)), "ta-1 /b"},
		"the size of the volumes counts": {
			[]Directory{{Path: "/a", Size: 300 * mebi, Free: 200 * mebi}, {Path: "/b", Size: 100 * mebi, Free: 100 * mebi}},
			stored("/a", 10, 10, 10, 10), "ta-0 /b"},
		"a size that is not told is that of the others": {
			[]Directory{{Path: "/a", Size: 300 * mebi, Free: 200 * mebi}, {Path: "/b"}}, stored("/a", 10, 10, 10, 10),
			"ta-0 /b, ta-1 /b"},
		"what is on its way counts where it goes": {two(),
			slices.Concat(copying(stored("/a", 10, 10), "/b"), stored("/a", 10, 10)), ""},
		"a full volume gets nothing": {
			[]Directory{{Path: "/a", Size: 100 * mebi}, {Path: "/b", Size: 100 * mebi, Free: 10 * mebi}},
			stored("/a", 30, 30, 30), ""},
		"a volume gets what it has room for": {
			[]Directory{{Path: "/a", Size: 100 * mebi}, {Path: "/b", Size: 100 * mebi, Free: 10 * mebi}},
			stored("/a", 30, 30, 4), "ta-2 /b"},
		"a cordoned one gets nothing":      {in(Cordoned), stored("/a", 10, 10), ""},
		"a cordoned one keeps what it has": {in(Cordoned), stored("/b", 10, 10), ""},
		"an offline one is left alone":     {in(Offline), stored("/b", 10, 10), ""},
		"one is emptied":                   {in(Emptied), stored("/b", 5, 10), "tb-1 /a, tb-0 /a"},
		"what was to come there stays":     {in(Emptied), copying(stored("/a", 10), "/b"), "ta-0 /a"},
		"what leaves it already goes on":   {in(Emptied), copying(stored("/b", 10), "/a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			moves, err := PlanDirectories(test.directories, test.replicas)
			if err != nil {
				t.Fatal(err)
			}
			if got := movesOf(moves); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func movesOf(moves []DirectoryMove) string {
	var texts []string
	for _, move := range moves {
		texts = append(texts, fmt.Sprintf("%s-%d %s", move.Topic, move.Partition, move.To))
	}
	return strings.Join(texts, ", ")
}

func TestADirectoryWithoutRoomElsewhereIsNotEmptied(t *testing.T) {
	_, err := PlanDirectories(in(Emptied), stored("/b", 46))
	if err == nil || !strings.Contains(err.Error(), "partition tb-0 in /b, which is to be emptied, has 46 MiB") {
		t.Errorf("got %v", err)
	}
}

// Whatever is stored, a plan ends, and a plan of what it comes to has no move: nothing goes to and fro.
func TestAPlanOfDirectoriesLeavesNothingToDo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var directories []Directory
		for i := range 2 + random.IntN(5) {
			directories = append(directories, Directory{Path: fmt.Sprintf("/%d", i), Size: int64(1+random.IntN(4)) << 40,
				Free: 1 << 40, State: []DirectoryState{Online, Online, Cordoned, Emptied}[random.IntN(4)]})
		}
		directories[0].State = Online
		var replicas []Stored
		for i := range random.IntN(200) {
			replicas = append(replicas, Stored{Topic: "t", Partition: int32(i),
				Directory: directories[random.IntN(len(directories))].Path, Bytes: random.Int64N(1 << random.IntN(32))})
		}
		moves, err := PlanDirectories(directories, replicas)
		if err != nil {
			t.Fatal(err)
		}
		for _, move := range moves {
			if replicas[move.Partition].Directory != move.From {
				t.Fatalf("partition %d moves twice", move.Partition)
			}
			replicas[move.Partition].Directory = move.To
		}
		again, err := PlanDirectories(directories, replicas)
		if err != nil || len(again) > 0 {
			t.Fatalf("after %d moves there are %v, %v", len(moves), again, err)
		}
		for _, replica := range replicas {
			i := slices.IndexFunc(directories, func(d Directory) bool { return d.Path == replica.Directory })
			if directories[i].State == Emptied {
				t.Fatalf("%s, which is to be emptied, has partition %d", replica.Directory, replica.Partition)
			}
		}
	}
}
