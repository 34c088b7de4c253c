package collector

import "strconv"

// al is an acceptance length that knows whether Python would hold it as an integer.
type al struct {
	value   float64
	integer bool
}

func (a al) json() any {
	if a.integer {
		return int(a.value)
	}
	return a.value
}

// averages is the part of Acceptance in front of the rate blocks.
type averages struct {
	request, category Object
	average           al
}

// genericAverages: AL = tokens / chunks by turn; Average_AL over all turns, each
// weighing the same. Source: metrics/acceptance_rate.py.
func genericAverages(convs []Conversation) averages {
	var a averages
	var all []float64
	for _, c := range convs {
		var byTurn Object
		for t := range c.Turns {
			sum, n := pool(c.Turns[t : t+1])
			all = append(all, float64(sum)/float64(n))
			byTurn = append(byTurn, Member{strconv.Itoa(t), all[len(all)-1]})
		}
		a.request.Set(strconv.Itoa(c.Index), byTurn)
	}
	a.average.value = floatMean(all)
	return a
}

// mtbenchAverages: AL = tokens / chunks of turns 0 and 1 pooled; categories by
// position in the data set. Source: metrics/mtbench.py.
func mtbenchAverages(convs []Conversation) averages {
	var a averages
	var all []float64
	byTopic := map[int][]float64{}
	for i, value := range ConversationALs(MetricMTBench, convs) {
		index := convs[i].Index
		a.request = append(a.request, Member{strconv.Itoa(index), value})
		all = append(all, value)
		topic := index / mtbenchPerTopic
		byTopic[topic] = append(byTopic[topic], value)
	}
	for topic, name := range mtbenchTopics {
		if als := byTopic[topic]; len(als) > 0 {
			a.category = append(a.category, Member{name, floatMean(als)})
		}
	}
	a.average.value = floatMean(all)
	return a
}

// floatMean is sum(xs) / len(xs) in Python 3.12 or later.
func floatMean(xs []float64) float64 { return NeumaierSum(xs) / float64(len(xs)) }

// specbenchAverages: AL = exact mean of all chunks by question id; a repeated id
// overwrites the earlier value, and both requests add that final value to their
// categories. All means are statistics.mean. Source: metrics/specbench.py.
func specbenchAverages(convs []Conversation) averages {
	var ids, categories orderedGroups
	byID := map[string]al{}
	for _, c := range convs {
		sum, n := pool(c.Turns)
		id := idIdentity(c.QuestionID)
		ids.add(id, idKey(c.QuestionID))
		byID[id] = al{float64(sum) / float64(n), sum%n == 0}
	}
	for _, c := range convs {
		category := idIdentity(c.Category)
		categories.add(category, idKey(c.Category))
		categories.members[category] = append(categories.members[category], byID[idIdentity(c.QuestionID)])
	}
	var a averages
	var all []al
	for _, id := range ids.order {
		a.request = append(a.request, Member{ids.names[id], byID[id].json()})
		all = append(all, byID[id])
	}
	for _, category := range categories.order {
		a.category = append(a.category, Member{categories.names[category], exactMean(categories.members[category]).json()})
	}
	a.average = exactMean(all)
	return a
}

// exactMean is statistics.mean: an integer only if all inputs are and the result is whole.
func exactMean(als []al) al {
	xs := make([]float64, len(als))
	integers := true
	for i, a := range als {
		xs[i] = a.value
		integers = integers && a.integer
	}
	mean, whole := ExactMean(xs)
	return al{mean, integers && whole}
}

// orderedGroups keeps groups in the order of their first appearance.
type orderedGroups struct {
	order   []string
	names   map[string]string
	members map[string][]al
}

func (g *orderedGroups) add(key, name string) {
	if g.names == nil {
		g.names, g.members = map[string]string{}, map[string][]al{}
	}
	if _, ok := g.names[key]; !ok {
		g.order = append(g.order, key)
		g.names[key] = name
	}
}
