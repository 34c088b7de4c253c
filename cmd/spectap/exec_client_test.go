package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// processVar makes the test binary another program: "client" or "spectap".
const processVar = "SPECTAP_TEST_PROCESS"

// TestProcess is no test: it is the client that exec runs, or spectap itself where
// signals are sent to it.
func TestProcess(t *testing.T) {
	switch os.Getenv(processVar) {
	case "client":
		os.Exit(clientMain(flag.Args()))
	case "spectap":
		os.Args = append([]string{"spectap"}, flag.Args()...)
		os.Setenv(processVar, "client")
		main()
	}
	t.Skip("only a process of other tests")
}

// testProcess is the command line of the test binary as another program.
func testProcess(args ...string) []string {
	return append([]string{os.Args[0], "-test.run=^TestProcess$", "--"}, args...)
}

// client is a load generator as others write them.
type client struct {
	base      string // http://host:port
	questions string
	n, at     int    // conversations, and how many at a time
	named     string // header: correlation, affinity, baggage or none
	wire      string // go: net/http; rst: resets the connection behind [DONE]; aiperf: its header lines
	stream    bool
	warm      int    // first turns that are asked before
	probe     bool   // asks for one token before, as AIPerf's --wait-for-model-mode
	foreign   int    // questions of nobody's file
	leave     int    // conversation whose second turn is left in the middle; -1: none
	onFail    string // go-on, retry or stop
	forget    bool   // replays no replies
	wait      bool   // waits for signals after the first half
	code      int    // exit code
	ids       int
	mu        sync.Mutex
}

func clientMain(args []string) int {
	c := &client{}
	f := flag.NewFlagSet("client", flag.ExitOnError)
	f.StringVar(&c.base, "url", strings.TrimSuffix(os.Getenv("OPENAI_BASE_URL"), "/v1"), "")
	f.StringVar(&c.questions, "questions", "", "")
	f.IntVar(&c.n, "n", 4, "")
	f.IntVar(&c.at, "c", 1, "")
	f.StringVar(&c.named, "named", "none", "")
	f.StringVar(&c.wire, "wire", "go", "")
	f.BoolVar(&c.stream, "stream", true, "")
	f.IntVar(&c.warm, "warm", 0, "")
	f.BoolVar(&c.probe, "probe", false, "")
	f.IntVar(&c.foreign, "foreign", 0, "")
	f.IntVar(&c.leave, "leave", -1, "")
	f.StringVar(&c.onFail, "on_fail", "go-on", "")
	f.BoolVar(&c.forget, "forget", false, "")
	f.BoolVar(&c.wait, "wait", false, "")
	f.IntVar(&c.code, "code", 0, "")
	_ = f.Parse(args) // exits
	if err := c.run(); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 9
	}
	return c.code
}

func (c *client) run() error {
	text, err := os.ReadFile(c.questions)
	if err != nil {
		return err
	}
	var questions [][]string
	for line := range strings.Lines(string(text)) {
		var q struct{ Turns []string }
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			return err
		}
		questions = append(questions, q.Turns)
	}
	if c.probe {
		body := `{"messages":[{"role":"user","content":"Lo"}],"max_tokens":1,"model":"fake-model"}`
		if _, err := c.ask("", "", 0, []byte(body)); err != nil {
			return err
		}
	}
	for i := range c.foreign {
		if _, err := c.talk(-1-i, []string{fmt.Sprintf("private question %d", i)}); err != nil {
			return err
		}
	}
	for i := range c.warm {
		if _, err := c.talk(1000+i, questions[i][:1]); err != nil {
			return err
		}
	}
	if c.wait {
		if err := c.all(questions[:c.n/2], 0); err != nil {
			return err
		}
		return c.awaitSignals()
	}
	return c.all(questions[:c.n], 0)
}

// all asks conversations, some at a time.
func (c *client) all(questions [][]string, from int) error {
	var wait sync.WaitGroup
	permits, errs := make(chan struct{}, c.at), make([]error, len(questions))
	for i, turns := range questions {
		permits <- struct{}{}
		wait.Go(func() {
			_, errs[i] = c.talk(from+i, turns)
			<-permits
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// awaitSignals prints what comes until one that ends it.
func (c *client) awaitSignals() error {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGUSR1)
	fmt.Println("ready")
	for s := range ch {
		fmt.Println(s)
		if s == syscall.SIGUSR1 {
			return nil
		}
	}
	return nil
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// talk asks the turns of one conversation.
func (c *client) talk(index int, turns []string) (replies int, err error) {
	var history []chatMessage
	for turn, text := range turns {
		history = append(history, chatMessage{"user", text})
		body := map[string]any{"messages": history, "model": "fake-model", "stream": c.stream, "max_tokens": 48, "temperature": 0.7}
		raw, err := json.Marshal(body)
		if err != nil {
			return replies, err
		}
		reply, err := c.ask(fmt.Sprintf("conversation-%d", index), fmt.Sprint(index), turn, raw)
		if err != nil && c.onFail == "retry" {
			reply, err = c.ask(fmt.Sprintf("conversation-%d", index), fmt.Sprint(index), turn, raw)
		}
		switch {
		case err == nil:
			replies++
			if !c.forget {
				history = append(history, chatMessage{"assistant", reply})
			}
		case c.onFail != "go-on":
			return replies, err
		case reply != "":
			history = append(history, chatMessage{"assistant", reply}) // what had come of it
		}
	}
	return replies, nil
}

// ask sends one request and reads its answer. An error comes with what had come of the reply.
func (c *client) ask(name, index string, turn int, body []byte) (string, error) {
	c.mu.Lock()
	c.ids++
	id := fmt.Sprintf("%s-%d", os.Getenv("CLIENT_PREFIX"), c.ids)
	c.mu.Unlock()
	head := c.head(name, index, turn, id)
	left := c.leave >= 0 && index == fmt.Sprint(c.leave) && turn == 1
	if c.wire == "go" && !left {
		return c.askPlainly(head, body)
	}
	return c.askRaw(head, body, left)
}

// head are the header lines of a request, in the order in which they are sent. A
// probe, which has no name, has none.
func (c *client) head(name, index string, turn int, id string) [][2]string {
	if name == "" {
		return [][2]string{{"Content-Type", "application/json"}, {"Accept", "*/*"}}
	}
	plain := [][2]string{{"Content-Type", "application/json"}, {"X-Request-ID", id}}
	switch {
	case c.wire == "aiperf":
		return [][2]string{{"User-Agent", "aiperf/0.13.0"}, {"X-Request-ID", id}, {"X-Correlation-ID", name}, {"Accept", "text/event-stream"},
			{"Content-Type", "application/json"}, {"X-Session-Affinity", name}}
	case c.named == "correlation":
		return append(plain, [2]string{"X-Correlation-ID", name})
	case c.named == "affinity":
		return append(plain, [2]string{"X-Session-Affinity", name})
	case c.named == "baggage":
		return append(plain, [2]string{"Baggage", fmt.Sprintf("spectap.conversation=%s,spectap.turn=%d", index, turn)})
	}
	return plain
}

func (c *client) askPlainly(head [][2]string, body []byte) (string, error) {
	req, err := http.NewRequest(http.MethodPost, c.base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	for _, h := range head {
		req.Header.Set(h[0], h[1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return wholeReply(resp.Body)
	}
	return streamedReply(resp.Body, false)
}

// askRaw sends a request as some clients do, on a connection of its own. It
// resets it behind [DONE], or leaves after the first event.
func (c *client) askRaw(head [][2]string, body []byte, leave bool) (string, error) {
	u, err := url.Parse(c.base)
	if err != nil {
		return "", err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n", u.Host)
	for _, h := range head {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	if _, err := conn.Write(b.Bytes()); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return wholeReply(resp.Body)
	}
	reply, err := streamedReply(resp.Body, leave)
	if c.wire == "rst" || leave {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	return reply, err
}

func wholeReply(r io.Reader) (string, error) {
	var answer struct {
		Choices []struct{ Message chatMessage }
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil || len(answer.Choices) == 0 {
		return "", fmt.Errorf("no choice in the answer: %v", err)
	}
	return answer.Choices[0].Message.Content, nil
}

// streamedReply reads events up to [DONE], not to the end of the body. No event may
// have a usage: the client did not ask for one.
func streamedReply(r io.Reader, leave bool) (string, error) {
	var reply strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if data == "[DONE]" {
			return reply.String(), nil
		}
		if !ok {
			continue
		}
		var event struct {
			Usage   json.RawMessage
			Error   json.RawMessage
			Choices []struct{ Delta chatMessage }
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return reply.String(), err
		}
		if event.Usage != nil {
			fmt.Fprintln(os.Stderr, "client: an event has a usage that nobody asked for")
			os.Exit(8)
		}
		if len(event.Choices) > 0 {
			reply.WriteString(event.Choices[0].Delta.Content)
		}
		if leave && reply.Len() > 0 {
			return reply.String(), errors.New("left")
		}
	}
	return reply.String(), errors.Join(errors.New("the stream ended without [DONE]"), lines.Err())
}
