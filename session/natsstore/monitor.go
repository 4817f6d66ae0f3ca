package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A monitored is what the monitoring address of a server says of JetStream, at /varz.
type monitored struct {
	Version   string `json:"version"`
	JetStream struct {
		Config *struct {
			SyncAlways bool  `json:"sync_always"`
			Interval   int64 `json:"sync_interval"` // in nanoseconds
		} `json:"config"`
	} `json:"jetstream"`
}

// checkSync returns a *[SettingError] unless each of the servers with these monitoring addresses
// brings to its disk what it acknowledges.
func checkSync(ctx context.Context, addresses []string) error {
	for _, address := range addresses {
		m, err := monitor(ctx, address)
		if err != nil {
			return fmt.Errorf("ask %s for its settings: %w", address, err)
		}
		switch c := m.JetStream.Config; {
		case c == nil:
			return &SettingError{address, "jetstream", "off", "it is needed"}
		case !c.SyncAlways:
			return &SettingError{
				address, "sync_interval", fmt.Sprintf("%dns", c.Interval),
				"a loss of power undoes what the server has acknowledged; set it to always",
			}
		}
	}
	return nil
}

// monitor asks the server with a monitoring address.
func monitor(ctx context.Context, address string) (m monitored, err error) {
	const most = 4 << 20 // bytes of an answer
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimSuffix(address, "/")+"/varz", nil)
	if err != nil {
		return m, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return m, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return m, fmt.Errorf("the answer has the status %s", answer.Status)
	}
	return m, json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&m)
}
