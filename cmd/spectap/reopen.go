package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/rs/zerolog"

	"spectap/collector"
)

// reopenOnHangup lets SIGHUP open the records file again, for those who move it
// away by themselves, until stop is called. Without records SIGHUP keeps its
// default, which is to end the process.
func reopenOnHangup(sink collector.Sink, path string, log zerolog.Logger) (stop func()) {
	records, ok := sink.(*collector.JSONL)
	if !ok {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range hangups {
			if err := records.Reopen(); err != nil {
				log.Error().Err(err).Str("records", path).Msg("cannot open the records file again; the old one goes on")
				continue
			}
			log.Info().Str("records", path).Msg("records file was opened again")
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		wg.Wait()
	}
}
