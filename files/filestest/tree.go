package filestest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing/iotest"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/spec"
)

func treeCases() []Case {
	return []Case{
		{Name: "TreeRoundTrip", Rule: "Names and contents are kept byte for byte, and so are empty directories, symbolic links and permission bits; an archive with ZeroTimes depends on nothing else.", need: needSymlinker, Run: treeRoundTrip},
		{Name: "TreeSkips", Rule: "FIFOs, sockets and devices are left out and counted; a dangling link is kept.", need: needLinksAndFIFO, Run: treeSkips},
		{Name: "TreeFilters", Rule: "Exclude and Gitignore leave out what they do in GlobOptions.", Run: treeFilters},
		{Name: "TreeEscapingLinks", Rule: "A link that may lead out of the tree fails the export as BadSymlink, since Import would refuse it; OmitEscapingLinks leaves it out and counts it.", need: needSymlinker, Run: treeEscapingLinks},
		{Name: "TreeHostile", Rule: "Each hostile archive is refused by its reason, in an error that names the entry, and nothing outside is touched.", need: needSymlinker, Run: treeHostile},
		{Name: "TreeSaysWhatLanded", Rule: "The returned Stats, and the error, say how much has landed.", need: needSymlinker, Run: treeSaysWhatLanded},
		{Name: "TreeBrokenSource", Rule: "An archive that cannot be read to its end is CodeInvalid; no single file is half imported.", Run: treeBrokenSource},
		{Name: "TreeMerge", Rule: "A file or link that has the name of one of the archive's is replaced; directories are merged, and get their own modes; modes are masked to the permission bits.", need: needSymlinker, Run: treeMerge},
		{Name: "TreeNotThroughLinks", Rule: "A link in the middle of a path is refused.", need: needSymlinker, Run: treeNotThroughLinks},
		{Name: "TreeHardLinks", Rule: "A hard link becomes a file of its own.", Run: treeHardLinks},
		{Name: "TreeCaseTwins", Rule: "RefuseCaseTwins refuses names that differ only in the case of their letters, and no others.", Run: treeCaseTwins},
		{Name: "TreeEmpty", Rule: "Empty refuses a directory that holds anything with CodeExists.", Run: treeEmpty},
		{Name: "TreeRoots", Rule: "\"\" is the workdir; a missing root is made by an import and CodeFileNotFound for an export; a file is CodeNotDirectory.", Run: treeRoots},
		{Name: "TreeLimits", Rule: "Where a limit is passed it is CodeTooLarge; what has been exported within limits is imported within them.", Run: treeLimits},
		{Name: "TreeLongPaths", Rule: "Without an error an archive and a manifest are whole: an entry with a name of more than spec.MaxPathBytes is CodeInvalidPath, unless it is left out.", Run: treeLongPaths},
		{Name: "TreeCancel", Rule: "Cancelling ctx ends an import and an export with the context's error; no temporary file stays.", Run: treeCancel},
		{Name: "TreeManifest", Rule: "Two directories with the same files have the same manifest; a path that is not UTF-8 is CodeInvalidPath.", Run: treeManifest},
		{Name: "TreeSwaps", Rule: "Neither import nor export leaves the directory through a link that is swapped in.", need: needSymlinker, Run: treeSwaps},
	}
}

// needSymlinker wants an FS that makes links itself: an import does.
func needSymlinker(_ context.Context, e Env) string {
	if _, ok := e.FS.(files.Symlinker); !ok {
		return "an FS that makes symbolic links"
	}
	return ""
}

func needLinksAndFIFO(ctx context.Context, e Env) string {
	if missing := needSymlinker(ctx, e); missing != "" {
		return missing
	}
	return needFIFO(ctx, e)
}

// export returns the archive of a directory.
func (e Env) export(ctx context.Context, t T, dir string, o tree.ExportOptions) ([]byte, tree.Stats) {
	t.Helper()
	var buf bytes.Buffer
	stats, err := tree.Export(ctx, e.FS, dir, &buf, o)
	if err != nil {
		t.Fatalf("export %q: %v", dir, err)
	}
	return buf.Bytes(), stats
}

// imports puts an archive in.
func (e Env) imports(ctx context.Context, t T, dir string, archive []byte, o tree.ImportOptions) tree.Stats {
	t.Helper()
	stats, err := tree.Import(ctx, e.FS, dir, bytes.NewReader(archive), o)
	if err != nil {
		t.Fatalf("import into %q: %v", dir, err)
	}
	return stats
}

// listing describes all that lies below dir.
func (e Env) listing(ctx context.Context, t T, dir string) []string {
	t.Helper()
	var all []string
	for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: dir, Metadata: true}) {
		if err != nil {
			t.Fatalf("list what is below %q: %v", dir, err)
		}
		line := fmt.Sprintf("%q %v", m.Path, m.Info.Mode.Type())
		switch m.Info.Mode.Type() {
		case fs.ModeSymlink:
			line += fmt.Sprintf(" -> %q", m.Info.Target)
		case 0:
			content := "unreadable"
			if m.Info.Mode&0o400 != 0 {
				hash, err := files.Hash(ctx, e.FS, dir+"/"+m.Path)
				if err != nil {
					t.Fatalf("hash %q: %v", m.Path, err)
				}
				content = hash
			}
			line += fmt.Sprintf(" %v %s", m.Info.Mode.Perm(), content)
		default:
			line += " " + m.Info.Mode.Perm().String()
		}
		all = append(all, line)
	}
	return all
}

func treeRoundTrip(ctx context.Context, t T, e Env) {
	from := e.path("from")
	deep := strings.Repeat("deep/", 60) + "file"
	for name, content := range map[string]string{
		"empty": "", "one": "1", "block": strings.Repeat("b", 512), "large": strings.Repeat("0123456789abcdef", 20_000),
		"d/nul": "\x00", deep: "deep", strings.Repeat("n", 255): "long", "new\nline": "n", "\xff\xfe": "bytes", " -rf *": "s", "é": "é",
	} {
		e.write(ctx, t, from+"/"+name, content)
	}
	e.writeMode(ctx, t, from+"/d/run", "#!", files.WriteOptions{Mode: 0o751})
	e.writeMode(ctx, t, from+"/d/ro", "r", files.WriteOptions{Mode: 0o444})
	e.mkdir(ctx, t, from+"/hollow/inner")
	e.symlink(ctx, t, "../one", from+"/d/link")
	e.symlink(ctx, t, "no\nwhere\xff", from+"/dangling")
	e.symlink(ctx, t, "d", from+"/dirlink")
	for name, mode := range map[string]fs.FileMode{"d": 0o750, "hollow": 0o700} {
		if err := files.Chmod(ctx, e.FS, from+"/"+name, mode); err != nil {
			t.Fatalf("chmod: %v", err)
		}
	}
	archive, out := e.export(ctx, t, from, tree.ExportOptions{ZeroTimes: true})
	in := e.imports(ctx, t, e.path("to"), archive, tree.ImportOptions{Empty: true})
	want := tree.Stats{Files: 13, Dirs: 63, Links: 3, Bytes: out.Bytes}
	if in != want || out != want {
		t.Errorf("exported %+v, imported %+v, want %+v", out, in, want)
	}
	if before, after := e.listing(ctx, t, from), e.listing(ctx, t, e.path("to")); !slices.Equal(before, after) {
		t.Errorf("the tree\n%s\nhas become\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if again, _ := e.export(ctx, t, e.path("to"), tree.ExportOptions{ZeroTimes: true}); !bytes.Equal(again, archive) {
		t.Errorf("the copy's archive is another one")
	}
}

func treeSkips(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("from/f"), "1")
	e.mkfifo(ctx, t, e.path("from/pipe"))
	e.symlink(ctx, t, "gone", e.path("from/l"))
	archive, stats := e.export(ctx, t, e.path("from"), tree.ExportOptions{})
	if want := (tree.Stats{Files: 1, Links: 1, Bytes: 1, Skipped: 1}); stats != want {
		t.Errorf("exported %+v, want %+v", stats, want)
	}
	e.imports(ctx, t, e.path("to"), archive, tree.ImportOptions{})
	e.kind(ctx, t, e.path("to/l"), fs.ModeSymlink)
}

func treeFilters(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("from/.gitignore"), "*.o\n/out/\n")
	for _, name := range []string{"a.c", "a.o", "out/x", "src/b.c", "src/b.o", "src/b.tmp"} {
		e.write(ctx, t, e.path("from/"+name), name)
	}
	archive, stats := e.export(ctx, t, e.path("from"), tree.ExportOptions{Gitignore: true, Exclude: []string{"**/*.tmp"}})
	if want := 4; stats.Entries() != want {
		t.Errorf("exported %+v, want %d entries", stats, want)
	}
	e.imports(ctx, t, e.path("to"), archive, tree.ImportOptions{})
	m, err := tree.ReadManifest(ctx, e.FS, e.path("from"), tree.ManifestOptions{Gitignore: true, Exclude: []string{"**/*.tmp"}})
	if err != nil {
		t.Fatalf("manifest: %v", err)
	}
	copied, err := tree.ReadManifest(ctx, e.FS, e.path("to"), tree.ManifestOptions{})
	if err != nil || copied.Hash != m.Hash || len(m.Entries) != 3 {
		t.Errorf("the manifest of what was selected has %d entries, and its copy's hash is the same: %v, %v", len(m.Entries), copied.Hash == m.Hash, err)
	}
	if _, err := tree.Export(ctx, e.FS, e.path("from"), io.Discard, tree.ExportOptions{Exclude: []string{"["}}); spec.CodeOf(err) != spec.CodeInvalid {
		t.Errorf("a malformed pattern: %v", err)
	}
}

func treeEscapingLinks(ctx context.Context, t T, e Env) {
	for i, target := range []string{"/etc/passwd", "../up", "d/../../up", "d/../f"} {
		dir := e.path(fmt.Sprintf("from%d", i))
		e.write(ctx, t, dir+"/f", "1")
		e.symlink(ctx, t, target, dir+"/l")
		_, err := tree.Export(ctx, e.FS, dir, io.Discard, tree.ExportOptions{})
		wantRefused(t, target, err, tree.BadSymlink, "l")
		if spec.HintOf(err) == "" {
			t.Errorf("%v: no hint that such links can be left out", err)
		}
		_, stats := e.export(ctx, t, dir, tree.ExportOptions{OmitEscapingLinks: true})
		if want := (tree.Stats{Files: 1, Bytes: 1, Skipped: 1}); stats != want {
			t.Errorf("exported %+v, want %+v", stats, want)
		}
	}
}

// wantRefused checks why an archive was refused, and for which entry.
func wantRefused(t T, what string, err error, reason tree.Reason, entry string) {
	t.Helper()
	var refused *tree.RefusedError
	if !errors.As(err, &refused) || refused.Reason != reason || entry != "" && refused.Entry != entry {
		t.Errorf("%s: %v, want %s of %q", what, err, reason, entry)
	}
}

// saysWhatLanded checks that stats and err say of an import what there is in to.
func (e Env) saysWhatLanded(ctx context.Context, t T, to string, stats tree.Stats, err error) {
	t.Helper()
	var there tree.Stats
	for m, walkErr := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: to, Metadata: true}) {
		switch {
		case walkErr != nil:
			t.Fatalf("list what is below %q: %v", to, walkErr)
		case m.Info.IsDir():
			there.Dirs++
		case m.Info.IsRegular():
			there.Files++
			there.Bytes += m.Info.Size
		default:
			there.Links++
		}
	}
	if stats != there {
		t.Errorf("landed: %+v, and there is %+v", stats, there)
	}
	says := 0
	if there.Entries() > 0 {
		says = 1
	}
	if err == nil || strings.Count(err.Error(), fmt.Sprintf("%d entries have landed", there.Entries())) != says {
		t.Errorf("%v, and %d entries have landed", err, there.Entries())
	}
}

func treeSaysWhatLanded(ctx context.Context, t T, e Env) {
	small := []tarEntry{tarFile("a", "12"), tarDir("d"), tarFile("d/b", "3"), tarLink("l", "a")}
	large := append(slices.Clone(small), tarFile("large", strings.Repeat("x", 3<<20)))
	for i, entries := range [][]tarEntry{small, large} {
		to := e.path(fmt.Sprintf("to%d", i))
		stats, err := tree.Import(ctx, e.FS, to, bytes.NewReader(tarOf(append(entries, tarFile("../c", ""))...)), tree.ImportOptions{})
		wantRefused(t, "the last entry", err, tree.BadPath, "../c")
		e.saysWhatLanded(ctx, t, to, stats, err)
		if i == 1 && stats.Entries() < len(small) {
			t.Errorf("only %d entries came before three megabytes", stats.Entries())
		}
	}
	// What fails where it lands says so as well.
	e.mkdir(ctx, t, e.path("taken/d/b"))
	stats, err := tree.Import(ctx, e.FS, e.path("taken"), bytes.NewReader(tarOf(large...)), tree.ImportOptions{})
	wantCode(t, "a file onto a directory", err, spec.CodeIsDirectory)
	if want := (tree.Stats{Files: 1, Dirs: 1, Bytes: 2}); stats != want || err != nil && (!strings.Contains(err.Error(), `d/b`) || strings.Count(err.Error(), "2 entries have landed") != 1) {
		t.Errorf("landed: %+v, want %+v: %v", stats, want, err)
	}
}

func treeBrokenSource(ctx context.Context, t T, e Env) {
	whole := tarOf(tarFile("a", "12"), tarFile("b", strings.Repeat("x", 3<<20)))
	broken := errors.New("the disk broke")
	for i, size := range []int{1300, 2000, 2 << 20} {
		to := e.path(fmt.Sprintf("to%d", i))
		stats, err := tree.Import(ctx, e.FS, to, io.MultiReader(bytes.NewReader(whole[:size]), iotest.ErrReader(broken)), tree.ImportOptions{})
		wantCode(t, "a source that fails", err, spec.CodeInvalid)
		if !errors.Is(err, broken) {
			t.Errorf("%v is not what the source said", err)
		}
		e.saysWhatLanded(ctx, t, to, stats, err)
	}
}

func treeMerge(ctx context.Context, t T, e Env) {
	to := e.path("to")
	e.writeMode(ctx, t, to+"/f", "old", files.WriteOptions{Mode: 0o600})
	e.write(ctx, t, to+"/d/kept", "kept")
	e.write(ctx, t, e.path("outside"), "outside")
	e.symlink(ctx, t, "../outside", to+"/l")
	e.symlink(ctx, t, "../outside", to+"/m")
	run, dir := tarFile("f", "new"), tarDir("d")
	run.Mode, dir.Mode = 0o6755, 0o1555
	archive := tarOf(tarDir("./"), dir, tarFile("d/new", "1"), run, tarFile("l", "file"), tarLink("m", "f"))
	for range 2 {
		e.imports(ctx, t, to, archive, tree.ImportOptions{})
		want := []string{
			`"d" d--------- -r-xr-xr-x`,
			`"d/kept" ---------- -rw-r--r-- ` + hashOf("kept"), `"d/new" ---------- -rw-r--r-- ` + hashOf("1"),
			`"f" ---------- -rwxr-xr-x ` + hashOf("new"), `"l" ---------- -rw-r--r-- ` + hashOf("file"), `"m" L--------- -> "f"`,
		}
		if got := e.listing(ctx, t, to); !slices.Equal(got, want) {
			t.Errorf("there is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if info := e.stat(ctx, t, to+"/f"); info.Mode != 0o755 {
		t.Errorf("the mode is %v", info.Mode)
	}
	e.holds(ctx, t, e.path("outside"), "outside")
	_ = files.Chmod(ctx, e.FS, to+"/d", 0o755) // so that it can be removed
}

func treeNotThroughLinks(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("outside"))
	e.mkdir(ctx, t, e.path("to/inside"))
	for _, target := range []string{"../outside", e.path("outside"), "inside", "missing"} {
		link := e.path("to/l")
		e.symlink(ctx, t, target, link)
		for what, archive := range map[string][]byte{
			"a file": tarOf(tarFile("l/f", "1")), "deeper": tarOf(tarFile("l/a/b/f", "1")), "a link": tarOf(tarLink("l/m", "n")),
			"a directory": tarOf(tarDir("l/d")), "in its place": tarOf(tarDir("l")),
		} {
			stats, err := tree.Import(ctx, e.FS, e.path("to"), bytes.NewReader(archive), tree.ImportOptions{})
			wantCode(t, what+" through "+target, err, spec.CodeNotDirectory)
			if stats != (tree.Stats{}) {
				t.Errorf("%s through %s: landed %+v", what, target, stats)
			}
		}
		if err := e.FS.Remove(ctx, link, files.RemoveOptions{}); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
	if got := e.listing(ctx, t, e.Dir); len(got) != 3 {
		t.Errorf("there is %q, want three directories", got)
	}
}

func treeHardLinks(ctx context.Context, t T, e Env) {
	stats := e.imports(ctx, t, e.path("to"), tarOf(tarFile("d/a", "123"), tarHard("b", "d/a"), tarHard("./c", "./b")), tree.ImportOptions{})
	if want := (tree.Stats{Files: 3, Bytes: 9}); stats != want {
		t.Errorf("imported %+v, want %+v", stats, want)
	}
	for _, name := range []string{"d/a", "b", "c"} {
		e.holds(ctx, t, e.path("to/"+name), "123")
		if info := e.stat(ctx, t, e.path("to/"+name)); info.Links != 1 {
			t.Errorf("%s has %d names", name, info.Links)
		}
	}
}

func treeCaseTwins(ctx context.Context, t T, e Env) {
	// Names that are not UTF-8 have bytes that are no letters.
	var apart []tarEntry
	for _, name := range []string{"a\xff", "a\xfe", "a\ufffd", "b"} {
		f := tarFile(name, name)
		f.Format = tar.FormatGNU
		apart = append(apart, f)
	}
	e.imports(ctx, t, e.path("to"), tarOf(apart...), tree.ImportOptions{RefuseCaseTwins: true})
	for _, f := range apart {
		e.holds(ctx, t, e.path("to/"+f.Name), f.Name)
	}
	twin := tarFile("A\xff", "")
	twin.Format = tar.FormatGNU
	_, err := tree.Import(ctx, e.FS, e.path("to"), bytes.NewReader(tarOf(append(apart, twin)...)), tree.ImportOptions{RefuseCaseTwins: true})
	wantRefused(t, "twins beside a byte that is no letter", err, tree.Duplicate, twin.Name)
}

func treeEmpty(ctx context.Context, t T, e Env) {
	archive := tarOf(tarFile("a", "1"))
	e.mkdir(ctx, t, e.path("to"))
	e.imports(ctx, t, e.path("to"), archive, tree.ImportOptions{Empty: true})
	stats, err := tree.Import(ctx, e.FS, e.path("to"), bytes.NewReader(tarOf(tarFile("b", "1"))), tree.ImportOptions{Empty: true})
	wantCode(t, "a directory that holds something", err, spec.CodeExists)
	if got := e.listing(ctx, t, e.path("to")); len(got) != 1 || stats != (tree.Stats{}) {
		t.Errorf("there is %q, landed %+v", got, stats)
	}
}

func treeRoots(ctx context.Context, t T, e Env) {
	archive := tarOf(tarFile("a", "1"))
	e.imports(ctx, t, e.path("made/for/it"), archive, tree.ImportOptions{})
	e.holds(ctx, t, e.path("made/for/it/a"), "1")
	_, err := tree.Export(ctx, e.FS, e.path("gone"), io.Discard, tree.ExportOptions{})
	wantCode(t, "export what is missing", err, spec.CodeFileNotFound)
	_, err = tree.ReadManifest(ctx, e.FS, e.path("gone"), tree.ManifestOptions{})
	wantCode(t, "the manifest of what is missing", err, spec.CodeFileNotFound)
	file := e.path("made/for/it/a")
	_, err = tree.Export(ctx, e.FS, file, io.Discard, tree.ExportOptions{})
	wantCode(t, "export a file", err, spec.CodeNotDirectory)
	_, err = tree.Import(ctx, e.FS, file, bytes.NewReader(archive), tree.ImportOptions{})
	wantCode(t, "import into a file", err, spec.CodeNotDirectory)
	_, err = tree.Import(ctx, e.FS, "a\x00b", bytes.NewReader(archive), tree.ImportOptions{})
	wantCode(t, "a root with NUL", err, spec.CodeInvalidPath)
}

// tooLong puts a directory into dir in which there is a file whose name no call takes. It
// returns where in dir that lies, and what takes it out again.
func (e Env) tooLong(ctx context.Context, t T, dir string) (moved string, undo func()) {
	t.Helper()
	chain := strings.Repeat("/"+strings.Repeat("d", 200), 11)
	e.mkdir(ctx, t, e.path(dir+chain))
	e.write(ctx, t, e.path("spare"+chain+"/secret.txt"), "deep")
	from, to := e.path("spare"), e.path(dir+chain+"/spare")
	if err := e.FS.Rename(ctx, from, to, files.RenameOptions{}); err != nil {
		t.Fatalf("rename: %v", err)
	}
	return chain[1:] + "/spare", func() {
		t.Helper()
		if err := e.FS.Rename(ctx, to, from, files.RenameOptions{}); err != nil {
			t.Errorf("rename back: %v", err)
		}
	}
}

func treeLongPaths(ctx context.Context, t T, e Env) {
	moved, undo := e.tooLong(ctx, t, "from")
	defer undo()
	e.write(ctx, t, e.path("from/z"), "1")
	var buf bytes.Buffer
	_, err := tree.Export(ctx, e.FS, e.path("from"), &buf, tree.ExportOptions{})
	wantCode(t, "an export of what cannot be named", err, spec.CodeInvalidPath)
	_, err = tree.ReadManifest(ctx, e.FS, e.path("from"), tree.ManifestOptions{})
	wantCode(t, "a manifest of what cannot be named", err, spec.CodeInvalidPath)
	if _, err := tree.Import(ctx, e.FS, e.path("to"), &buf, tree.ImportOptions{}); err == nil {
		t.Errorf("what the export has written passes for whole")
	}
	// What is left out need have no name.
	for _, exclude := range []string{moved, "**/spare/**"} {
		archive, _ := e.export(ctx, t, e.path("from"), tree.ExportOptions{Exclude: []string{exclude}})
		if bytes.Contains(archive, []byte("secret.txt")) {
			t.Errorf("left out is %.20q, and it is there", exclude)
		}
	}
}

func treeLimits(ctx context.Context, t T, e Env) {
	for i := range 10 {
		e.write(ctx, t, e.path(fmt.Sprintf("from/d%d/f", i)), strings.Repeat("x", 600))
	}
	archive, stats := e.export(ctx, t, e.path("from"), tree.ExportOptions{})
	framed := int64(len(archive)) - 1024
	exact := tree.Limits{FileBytes: 600, ArchiveBytes: framed, Entries: stats.Entries()}
	e.export(ctx, t, e.path("from"), tree.ExportOptions{Limits: exact})
	e.imports(ctx, t, e.path("to"), archive, tree.ImportOptions{Limits: exact})
	for what, c := range map[string]struct {
		limits tree.Limits
		reason tree.Reason
	}{
		"a file":      {tree.Limits{FileBytes: 599}, tree.FileTooLarge},
		"the archive": {tree.Limits{ArchiveBytes: framed - 1}, tree.ArchiveTooLarge},
		"the entries": {tree.Limits{Entries: stats.Entries() - 1}, tree.ArchiveTooLarge},
	} {
		_, err := tree.Export(ctx, e.FS, e.path("from"), io.Discard, tree.ExportOptions{Limits: c.limits})
		wantRefused(t, "export, "+what, err, c.reason, "")
		wantCode(t, "export, "+what, err, spec.CodeTooLarge)
		_, err = tree.Import(ctx, e.FS, e.path("too much"), bytes.NewReader(archive), tree.ImportOptions{Limits: c.limits})
		wantRefused(t, "import, "+what, err, c.reason, "")
		wantCode(t, "import, "+what, err, spec.CodeTooLarge)
	}
	_, err := tree.Export(ctx, e.FS, e.path("from"), io.Discard, tree.ExportOptions{Limits: tree.Limits{Entries: -1}})
	wantCode(t, "a negative limit", err, spec.CodeInvalid)
}

// stalling ends a context once it has given what it has, and then waits for a while.
type stalling struct {
	r      io.Reader
	cancel context.CancelFunc
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err == io.EOF {
		s.cancel()
		time.Sleep(20 * time.Millisecond)
		return 0, errors.New("cancelled")
	}
	return n, err
}

// cancelling ends a context with its first Write.
type cancelling struct{ cancel context.CancelFunc }

func (c cancelling) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

func treeCancel(ctx context.Context, t T, e Env) {
	whole := tarOf(tarFile("a", strings.Repeat("x", 1<<20)), tarFile("b", strings.Repeat("y", 1<<20)))
	part, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := tree.Import(part, e.FS, e.path("to"), &stalling{bytes.NewReader(whole[:3<<19]), cancel}, tree.ImportOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("import: %v", err)
	}
	e.contains(ctx, t, e.path("to"), "a") // the guest that has not begun with b leaves nothing of it
	for i := range 20 {
		e.write(ctx, t, e.path(fmt.Sprintf("from/%d", i)), strings.Repeat("x", 1<<19))
	}
	part, cancel = context.WithCancel(ctx)
	defer cancel()
	if _, err := tree.Export(part, e.FS, e.path("from"), cancelling{cancel}, tree.ExportOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("export: %v", err)
	}
}

func treeManifest(ctx context.Context, t T, e Env) {
	for _, dir := range []string{"a", "b"} {
		e.write(ctx, t, e.path(dir+"/x/y"), "1")
		e.writeMode(ctx, t, e.path(dir+"/é \"q\""), "", files.WriteOptions{Mode: 0o755})
		e.mkdir(ctx, t, e.path(dir+"/empty"+dir))
	}
	read := func(dir string) tree.Manifest {
		t.Helper()
		m, err := tree.ReadManifest(ctx, e.FS, e.path(dir), tree.ManifestOptions{})
		if err != nil {
			t.Fatalf("manifest: %v", err)
		}
		return m
	}
	a, b := read("a"), read("b")
	want := []tree.ManifestEntry{{Path: "x/y", Mode: 0o644, Size: 1, SHA256: hashOf("1")}, {Path: "é \"q\"", Mode: 0o755, SHA256: hashOf("")}}
	if !slices.Equal(a.Entries, want) || !slices.Equal(b.Entries, want) || a.Hash != b.Hash {
		t.Errorf("%+v and %+v, want %+v", a, b, want)
	}
	e.write(ctx, t, e.path("b/x/y"), "2")
	if read("b").Hash == a.Hash {
		t.Errorf("another content has the same hash")
	}
	_, err := tree.ReadManifest(ctx, e.FS, e.path("a"), tree.ManifestOptions{MaxEntries: 1})
	wantCode(t, "more files than allowed", err, spec.CodeTooLarge)
	e.write(ctx, t, e.path("b/x/\xff"), "2")
	_, err = tree.ReadManifest(ctx, e.FS, e.path("b"), tree.ManifestOptions{})
	wantCode(t, "a path that is not UTF-8", err, spec.CodeInvalidPath)
}

// treeSwaps imports into, and exports from, a directory that is a link to one outside at
// every other moment.
func treeSwaps(ctx context.Context, t T, e Env) {
	rounds := 40
	if e.Soak {
		rounds = 10_000
	}
	e.mkdir(ctx, t, e.path("to/d"))
	e.write(ctx, t, e.path("outside/secret"), "secret")
	e.symlink(ctx, t, "../outside", e.path("to/.link"))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		move := func(from, to string) {
			_ = e.FS.Rename(ctx, e.path("to/"+from), e.path("to/"+to), files.RenameOptions{Overwrite: true})
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			move("d", ".dir")
			move(".link", "d")
			move("d", ".link")
			move(".dir", "d")
		}
	}()
	archive := tarOf(tarFile("d/f", "1"), tarFile("d/sub/g", "2"), tarLink("d/l", "f"))
	for range rounds {
		_, _ = tree.Import(ctx, e.FS, e.path("to"), bytes.NewReader(archive), tree.ImportOptions{})
		var buf bytes.Buffer
		if _, err := tree.Export(ctx, e.FS, e.path("to"), &buf, tree.ExportOptions{OmitEscapingLinks: true}); err == nil && bytes.Contains(buf.Bytes(), []byte("secret")) {
			t.Errorf("an export left the directory")
		}
	}
	close(stop)
	<-done
	if got := e.listing(ctx, t, e.path("outside")); len(got) != 1 {
		t.Errorf("outside there is %q, want one file", got)
	}
}
