package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

var notNumber = regexp.MustCompile(`="[^"]*(NaN|Inf)[^"]*"`)

// sound checks what holds for every page.
func sound(t *testing.T, page string) {
	t.Helper()
	if bad := notNumber.FindString(page); bad != "" {
		t.Errorf("the page holds %s", bad)
	}
	if strings.Contains(page, "SECRET") {
		t.Error("the page holds a prompt or a reply")
	}
	if !strings.HasSuffix(page, "</html>\n") {
		t.Error("the page does not end")
	}
}

// Folders of all kinds have a report that says what they lack.
func TestFolders(t *testing.T) {
	check := func(name string, fill func(fixture), want ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			fill(f)
			page := f.page()
			sound(t, page)
			contains(t, page, want...)
		})
	}
	one := shape{name: "t0_c1", concurrency: 1, conversations: 1, categories: []string{"a"}, model: "m"}
	check("one conversation", func(f fixture) { f.add(one) }, "1 of 1", "no interval: fewer than two conversations",
		"No table by category: all conversations are of one category", "there is no baseline")
	check("nothing streamed", func(f fixture) {
		s := one
		s.unstreamed, s.conversations = true, 3
		p := s.point()
		p.Lenient = true
		f.records(filepath.Join(f.dir, "t0_c1"), p)
	}, "no answer was streamed, so nothing is known of its times")
	check("failed only", func(f fixture) { f.fail(one, "the disk was full") },
		"No point is complete, so there are no figures", "the disk was full", "0 of 1")
	check("failed, without records", func(f fixture) {
		f.fail(one, "the disk was full")
		f.file("t0_c1.failed/records.jsonl", "")
	}, "the disk was full")
	check("planned only", func(f fixture) { f.file(collector.FileBook, `{"plan": {"points": ["t0_c1"]}}`) },
		"No point was run, so there are no figures", "t0_c1 not run")
	check("a broken sweep.json", func(f fixture) { f.add(one); f.file(collector.FileBook, `{"plan`) },
		"sweep.json could not be read, so the plan and the points that were not run are unknown")
	check("broken records", func(f fixture) {
		f.add(one)
		f.file("t0_c1/records.jsonl", "no record\n")
	}, "0 of 1", "its records.jsonl has 0 run lines, want one that names the data set")
	check("an own client, an open loop, a baseline", func(f fixture) {
		open := shape{name: "t0_q20", conversations: 3, categories: []string{"a", "b"}, model: "m", change: func(p *collector.Point) {
			p.Run.Schedule = &collector.Schedule{Rate: 20, Arrivals: collector.ArrivalsPoisson, Start: epoch, Offsets: []time.Duration{0, 1, 2}}
			p.Run.Attribution = &collector.Attribution{Requests: 7, Attributed: 6, Conversations: 3, SetApart: map[string]int{"foreign": 1}}
		}}
		f.add(open)
		base := shape{name: "t0_c4", concurrency: 4, conversations: 3, categories: []string{"a"}, model: "m", change: func(p *collector.Point) {
			p.Run.Baseline = true
			for _, r := range p.Records {
				r.Spec, r.SpecMissing = nil, collector.MissingNotReported
			}
		}}
		f.records(filepath.Join(f.dir, "t0_c4"), base.point())
	}, "Open loop: times from the intended moment", "Throughput by request rate", "20/s", "Of 7 requests, 6 are in 3 conversations; set apart, in no figure: 1 foreign.", "2 of 2", "1 point of a baseline", "temperature 0, by concurrency, baseline")
	check("baseline only", func(f fixture) {
		base := one
		base.conversations = 3
		base.change = func(p *collector.Point) {
			p.Run.Baseline = true
			for _, r := range p.Records {
				r.Spec, r.SpecMissing = nil, collector.MissingNotReported
			}
		}
		f.records(filepath.Join(f.dir, "t0_c1"), base.point())
	}, "Not shown: the server does not speculate, so these points are a baseline.", "1 of 1")
	check("repeats", func(f fixture) {
		for i := range 2 {
			s := shape{name: "t0_c4" + collector.Repeat(i).Suffix(), concurrency: 4, conversations: 3, categories: []string{"a"}, model: "m"}
			s.change = func(p *collector.Point) { p.Run.Repeat = collector.Repeat(i) }
			f.add(s)
		}
	}, "drawn at the mean of its runs, with their range", "t0_c4_r2", "their requests as one sample", "Several runs of a point together", "Several runs of a point are drawn together", "t0_c4, 2 runs together", "concurrency 4, 2 runs", "are too few for an interval between runs", " tok/s at t0_c4, mean of 2 runs ")
	check("the best of unlike repeats", func(f fixture) {
		for i, name := range []string{"t0_c4", "t0_c4_r2", "t0_c8"} {
			s := shape{name: name, concurrency: 4 << (i / 2), conversations: 3, categories: []string{"a"}, model: "m"}
			s.change = func(p *collector.Point) {
				p.Run.Repeat = collector.Repeat(i % 2)
				for _, r := range p.Records { // the second run is the fastest, the two together are slower than the third
					for j := range r.Chunks {
						r.Chunks[j].At = r.Chunks[j].At * []time.Duration{8, 3, 4}[i] / 4
					}
				}
			}
			f.records(filepath.Join(f.dir, name), s.point())
		}
	}, " tok/s at t0_c8 ", "3 of 3")
	check("files without records", func(f fixture) {
		s := one
		s.conversations = 3
		f.add(s)
		if err := os.Remove(filepath.Join(f.dir, "t0_c1", collector.FileRecords)); err != nil {
			t.Fatal(err)
		}
		f.file("t0_c1/configuration.json", `{"temperature": 0.0, "concurrency": 1, "model_dir": "m"}`)
	}, "its folder has no records.jsonl: only what its other files say is shown", "1 of 1")
	check("40 points", func(f fixture) {
		f.add(one)
		figures, err := os.ReadFile(filepath.Join(f.dir, "t0_c1", collector.FileSpeculation))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			s := one
			s.name, s.temperature, s.concurrency = fmt.Sprintf("t0.%d_c%d", i/10, 1<<(i%10)), float64(i/10)/10, 1<<(i%10)
			f.records(filepath.Join(f.dir, s.name), s.point())
			f.file(filepath.Join(s.name, collector.FileSpeculation), string(figures))
		}
	}, "41 of 41", "Curves are drawn for the lowest and the highest of 4 temperatures")
}

// The report of one point's own folder, and of the shards of a point.
func TestPointFolderAndShards(t *testing.T) {
	f := newFixture(t)
	f.add(shape{name: "t0_c1", concurrency: 1, conversations: 3, categories: []string{"a", "b"}, model: "m"})
	single := fixture{t, filepath.Join(f.dir, "t0_c1")}
	page := single.page()
	sound(t, page)
	contains(t, page, "1 of 1", "folder t0_c1")

	shards := newFixture(t)
	for i := range 2 {
		s := shape{name: "t0_c4", concurrency: 4, conversations: 4, categories: []string{"a", "b"}, model: "m"}
		p := s.point()
		p.Run.ID, p.Run.Shard = fmt.Sprintf("run-%d", i), &collector.Shard{Index: i, Of: 2, Run: fmt.Sprintf("run-%d", i), Concurrency: 2, Questions: "q"}
		var own []*collector.Record
		for c := range p.Run.Questions {
			if p.Run.Questions[c].NotAsked = c%2 != i; c%2 == i {
				own = append(own, p.Records[2*c], p.Records[2*c+1])
			}
		}
		for _, r := range own {
			r.Labels.Run = p.Run.ID
		}
		p.Records = own
		shards.records(filepath.Join(shards.dir, fmt.Sprintf("shard-%d-of-2", i), "t0_c4"), p)
	}
	page = shards.page()
	sound(t, page)
	contains(t, page, "1 of 1", "2 of 2 merged", "8 turns")
}

// BenchmarkReport makes the report of 100,000 records in 8 points, and of longer
// replies: 3.2 million events in 16,000 records. A page is below 2 MB.
func BenchmarkReport(b *testing.B) {
	b.Run("100000 records of 6 events", func(b *testing.B) { benchmarkReport(b, 6250, 0) })
	b.Run("16000 records of 200 events", func(b *testing.B) { benchmarkReport(b, 1000, 200) })
}

func benchmarkReport(b *testing.B, conversations, events int) {
	b.Helper()
	dir := b.TempDir()
	var figures []byte
	for i := range 8 {
		s := shape{name: fmt.Sprintf("t%d_c%d", i/4, 1<<(2*(i%4))), temperature: float64(i / 4), concurrency: 1 << (2 * (i % 4)), conversations: conversations, events: events, categories: []string{"a", "b", "c"}, model: "m"}
		p := s.point()
		point := filepath.Join(dir, s.name)
		if err := os.Mkdir(point, 0o777); err != nil {
			b.Fatal(err)
		}
		if err := p.WriteRecords(filepath.Join(point, collector.FileRecords), collector.DropTexts); err != nil {
			b.Fatal(err)
		}
		if figures == nil { // all points are alike, and to make them is not what is measured
			files, _, err := p.Files()
			if err != nil {
				b.Fatal(err)
			}
			figures = files[collector.FileSpeculation]
		}
		if err := os.WriteFile(filepath.Join(point, collector.FileSpeculation), figures, 0o666); err != nil {
			b.Fatal(err)
		}
	}
	path := filepath.Join(dir, FileReport)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Write(dir, path, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	if info.Size() > 2e6 {
		b.Fatalf("the page has %d bytes, want 2 MB at most", info.Size())
	}
	b.ReportMetric(float64(info.Size()), "bytes/page")
}

// A folder with a baseline in it, or beside it, shows the speed-up.
func TestSpeedUp(t *testing.T) {
	baseline := func(f fixture, dir string) {
		s := shape{name: "t0_c4", concurrency: 4, conversations: 3, categories: []string{"a"}, model: "m", change: func(p *collector.Point) {
			p.Run.Baseline = true
			for i, r := range p.Records { // twice as slow
				r.Spec, r.SpecMissing, r.Start = nil, collector.MissingNotReported, epoch.Add(time.Duration(2*i)*time.Second)
				for j := range r.Chunks {
					r.Chunks[j].At *= 2
				}
			}
		}}
		f.records(filepath.Join(dir, s.name), s.point())
	}
	own := shape{name: "t0_c4", concurrency: 4, conversations: 3, categories: []string{"a"}, model: "m"}
	beside, f := newFixture(t), newFixture(t)
	baseline(beside, beside.dir)
	f.add(own)
	path := filepath.Join(t.TempDir(), FileReport)
	if _, err := Write(f.dir, path, Options{Baseline: beside.dir}); err != nil {
		t.Fatal(err)
	}
	given, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inside := newFixture(t)
	inside.add(own)
	baseline(inside, filepath.Join(inside.dir, FolderBaseline))
	inside.file(filepath.Join(FolderBaseline, collector.FileBook), `{}`)
	for _, page := range []string{string(given), inside.page()} {
		sound(t, page)
		contains(t, page, "Speed-up of throughput", "output tok/s of the whole run, speculative ÷ baseline", "Where speculation stops paying, temperature 0, throughput:", "t0_c4 0 4 2.000")
	}
	contains(t, f.page(), "there is no baseline")
}
