package proxy

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// acceptPause is the longest wait between two attempts to accept a connection.
const acceptPause = time.Second

// patientListener goes on accepting after errors that pass, such as a process
// without free file descriptors. fasthttp ends the server on them, which would
// cut every live stream.
type patientListener struct {
	net.Listener
	log     zerolog.Logger
	silence time.Duration // limitSilence of each connection
}

// newPatientListener tells once a second at most that it cannot accept.
func newPatientListener(ln net.Listener, log zerolog.Logger, silence time.Duration) patientListener {
	return patientListener{ln, log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Second}), silence}
}

// Accept implements net.Listener.
func (l patientListener) Accept() (net.Conn, error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, acceptPause) {
		c, err := l.Listener.Accept()
		if err == nil {
			limitSilence(c, l.silence)
			return direct(c), nil
		}
		if !passes(err) {
			return nil, err
		}
		l.log.Warn().Err(err).Dur("pause_ms", pause).Msg("cannot accept a connection now; raise the limit of open files (ulimit -n) if it goes on")
		time.Sleep(pause)
	}
}

// passes tells whether an error of accept is about this moment or this
// connection, not about the listener (accept(2)).
func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
