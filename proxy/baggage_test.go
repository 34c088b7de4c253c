package proxy

import (
	"fmt"
	"strings"
	"testing"

	"spectap/collector"
)

func TestLabelsFromBaggage(t *testing.T) {
	f := func(header string, want collector.Labels) {
		t.Helper()
		if got := LabelsFromBaggage([]byte(header)); got != want {
			t.Errorf("%.100q:\n got %+v\nwant %+v", header, got, want)
		}
	}
	f("", collector.Labels{})
	f("spectap.run=r1,spectap.point=t0_c32,spectap.conversation=4,spectap.question=81,spectap.category=writing,spectap.turn=1",
		collector.Labels{Run: "r1", Point: "t0_c32", Conversation: "4", Question: "81", Category: "writing", Turn: 1, HasTurn: true})
	f(" spectap.run = a%20b%2Cc ; p=1;q , other=x", collector.Labels{Run: "a b,c"})
	f("spectap.run=caf%C3%A9", collector.Labels{Run: "café"})
	f("spectap.run=%zz%4", collector.Labels{Run: "%zz%4"})       // no hex digits: as it came
	f("spectap.run=a%FFb", collector.Labels{Run: "a\uFFFDb"})    // no UTF-8
	f("spectap.run=a=b", collector.Labels{Run: "a=b"})           // an equals sign in the value
	f("spectap.run=a,spectap.run=b", collector.Labels{Run: "b"}) // the last counts
	f("spectap.turn=0", collector.Labels{HasTurn: true})
	f("spectap.turn=-1", collector.Labels{})
	f("spectap.turn=x", collector.Labels{})
	f("spectap.run", collector.Labels{})
	f("SPECTAP.RUN=a", collector.Labels{}) // keys are case-sensitive

	var many strings.Builder
	for i := range 63 {
		fmt.Fprintf(&many, "k%d=v,", i)
	}
	f(many.String()+"spectap.run=a", collector.Labels{Run: "a"}) // member 64
	f(many.String()+"k=v,spectap.run=a", collector.Labels{})     // member 65
	fits := "k=" + strings.Repeat("v", 8192-len("k=,spectap.run=a")) + ",spectap.run=a"
	f(fits, collector.Labels{Run: "a"}) // 8192 bytes
	f(fits+"b", collector.Labels{})     // a member that crosses the limit is not read
	f(fits+",spectap.point=p", collector.Labels{Run: "a"})
}
