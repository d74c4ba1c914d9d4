package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	clients    = 8
	perClient  = 50
	loadAgents = 4
)

// TestLoad is everything at once: several clients, two processes, one of which is
// killed while it has an agent's lock and is started again, with all workers, deferred
// stops, summaries, injections and config saves. Then nothing has been lost, and
// nothing been done twice.
func TestLoad(t *testing.T) { onEachEngine(t, load) }

// tally is what the clients know: of each agent, which hooks were sent, and which
// answered; and which settings were saved.
type tally struct {
	mu             sync.Mutex
	sent, answered map[string][]string
	settings       []string
}

func load(t *testing.T, s site) {
	app, end, err := s.open("test", nil)
	check(t, err)
	defer end()
	var agents []string
	for i := range loadAgents {
		agents = append(agents, fmt.Sprint("agent", i))
		check(t, app.Store.Create(t.Context(), Agent{ID: agents[i]}))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	one, two := start(t, s, "one"), start(t, s, "two")
	var url [2]atomic.Pointer[string]
	url[0].Store(&one.url)
	url[1].Store(&two.url)
	count := &tally{sent: map[string][]string{}, answered: map[string][]string{}}
	var progress atomic.Int32
	half := make(chan struct{})
	var working sync.WaitGroup
	for c := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(c)))
		working.Go(func() {
			for i := range perClient {
				to := *url[random.IntN(2)].Load()
				count.request(t, random, to, agents, fmt.Sprint(c, "-", i), to == two.url)
				if progress.Add(1) == clients*perClient/2 {
					close(half)
				}
			}
		})
	}
	within(t, "half of the requests", half)
	working.Go(func() { count.hook(t, two.url, "stop", agents[0], doomed, true) })
	if got := two.Answer(); got != doomed {
		t.Fatalf("it says %q", got)
	}
	two.Kill()
	again := start(t, s, "again")
	url[1].Store(&again.url)
	working.Wait()

	for _, agent := range agents {
		count.hook(t, one.url, "session-end", agent, "the-end-of-"+agent, false)
	}
	http.DefaultClient.CloseIdleConnections() // a server waits for those that were never used
	one.end()
	again.end()
	compare(t, s, app, agents, count, "two")
}

// request sends one request of some kind.
func (c *tally) request(t *testing.T, random *rand.Rand, to string, agents []string, id string, mayFail bool) {
	agent := agents[random.IntN(len(agents))]
	names := slices.Sorted(maps.Keys(routes))
	switch n := random.IntN(len(names) + 4); {
	case n < len(names):
		c.hook(t, to, names[n], agent, id, mayFail)
	case n == len(names):
		c.save(t, to, id, mayFail)
	case n == len(names)+1:
		got, err := ask(http.MethodGet, to+"/hook/status?agent="+agent, nil)
		good(t, "status", got, err, mayFail)
	case n == len(names)+2: // commands are begun and stopped more often
		c.hook(t, to, "user-prompt-submit", agent, id, mayFail)
	default:
		c.hook(t, to, "stop", agent, id, mayFail)
	}
}

func (c *tally) hook(t *testing.T, to, route, agent, id string, mayFail bool) {
	c.mu.Lock()
	c.sent[agent] = append(c.sent[agent], id)
	c.mu.Unlock()
	got, err := ask(http.MethodPost, to+"/hook/"+route, Hook{ID: id, Session: "session-" + agent, Text: "text of " + id})
	if good(t, route, got, err, mayFail) {
		c.mu.Lock()
		c.answered[agent] = append(c.answered[agent], id)
		c.mu.Unlock()
	}
}

func (c *tally) save(t *testing.T, to, id string, mayFail bool) {
	got, err := ask(http.MethodPost, to+"/config?name="+url.QueryEscape(id)+"&value=saved", nil)
	if good(t, "config", got, err, mayFail) {
		c.mu.Lock()
		c.settings = append(c.settings, id)
		c.mu.Unlock()
	}
}

// good reports whether an answer came. One must come, and be good, of any process but
// the killed one.
func good(t *testing.T, what string, got response, err error, mayFail bool) bool {
	if err == nil && got.status != http.StatusOK {
		t.Errorf("%s: %d %s", what, got.status, got.body)
		return false
	}
	that(t, err == nil || mayFail, "%s: %v", what, err)
	return err == nil
}

// compare compares the state with what clients and oracles know.
func compare(t *testing.T, s site, app *App, agents []string, count *tally, killed string) {
	seen := must(readTrace(s.Dir))(t)
	byMarker, byOrder := seen.overlaps(killed)
	if len(byMarker)+len(byOrder) > 0 {
		t.Errorf("%d overlaps by the markers, %d by their order, such as %v", len(byMarker), len(byOrder), append(byMarker, byOrder...)[0])
	}
	// once checks something that is begun, and told of once it is committed. What the
	// killed process had begun it may not have committed, so that another did it
	// again; or it was committed, and not told of.
	repeated := 0
	once := func(begun, told, subject string) {
		begunByAll, toldByAll := seen.count(begun, subject, ""), seen.count(told, subject, "")
		untold := begunByAll - toldByAll
		untoldByLiving := seen.count(begun, subject, killed) - seen.count(told, subject, killed)
		if begunByAll == 0 || toldByAll > 1 || untold > 1 || untoldByLiving != 0 {
			t.Errorf("%s of %s: %d times, of which %d are untold (%d by the living)", begun, subject, begunByAll, untold, untoldByLiving)
		}
		repeated += begunByAll - 1
	}
	hooks, commands, tended := 0, 0, 0
	for _, id := range agents {
		agent := must(app.Store.Read(t.Context(), id))(t)
		hooks += agent.Events
		count.checkHooks(t, agent)
		for _, c := range agent.Commands {
			n, byKilled := seen.count("completed", c.ID, ""), strings.HasPrefix(c.CompletedBy, killed+"/")
			that(t, c.Complete && n <= 1 && (n != 0 || byKilled), "%s: command %+v was completed %d times", id, c, n)
			commands++
		}
		once("inject", "injected", id)
		for worker := range Workers {
			n, told := agent.Tended[worker], seen.count(worker, id, "")
			if n != told && n != told+1 || told == 0 { // the killed one may not have told of its last
				t.Errorf("%s: %s has tended it %d times, of which %d are kept", id, worker, told, n)
			}
			tended += n
		}
	}
	turns := must(app.Store.Turns(t.Context()))(t)
	for _, turn := range turns {
		equal(t, turn.Summary, "in short: "+turn.Prompt, "turn", turn)
		once("call", "summarised", turn.ID)
	}
	that(t, len(turns) != 0 && commands != 0, "there is nothing to check")
	count.checkConfig(t, app)
	t.Logf("%d hooks, %d commands, %d turns, %d settings, %d cycles of workers; %d calls and injections were repeated after the kill",
		hooks, commands, len(turns), len(count.settings), tended, repeated)
}

// checkHooks: those answered were processed, once; those not answered, once at most.
func (c *tally) checkHooks(t *testing.T, agent Agent) {
	if agent.Events != len(agent.Seen) {
		t.Errorf("%s counts %d events, and lists %d", agent.ID, agent.Events, len(agent.Seen))
	}
	processed := map[string]int{}
	for _, id := range agent.Seen {
		if processed[id]++; processed[id] > 1 || !slices.Contains(c.sent[agent.ID], id) {
			t.Errorf("%s: hook %s was processed %d times", agent.ID, id, processed[id])
		}
	}
	for _, id := range c.answered[agent.ID] {
		if processed[id] != 1 {
			t.Errorf("%s: hook %s was answered, and processed %d times", agent.ID, id, processed[id])
		}
	}
	equal(t, processed[doomed], 0, agent.ID, "he hook that was not finished was processed")
}

func (c *tally) checkConfig(t *testing.T, app *App) {
	config := map[string]string{}
	data, err := os.ReadFile(app.Config)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	check(t, err)
	for _, name := range c.settings {
		equal(t, config[name], "saved", "setting", name, "is lost")
	}
}
