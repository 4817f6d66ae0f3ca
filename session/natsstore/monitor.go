package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/offshoot-sdk/offshoot/session/internal/mask"
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
		address = mask.Address(address)
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

// monitor asks the server with a monitoring address. The error does not have the address.
func monitor(ctx context.Context, address string) (m monitored, err error) {
	const most = 4 << 20 // bytes of an answer
	if !strings.Contains(address, "://") {
		return m, mask.ErrAddress
	}
	if err := mask.Check(address); err != nil {
		return m, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return m, mask.ErrAddress
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("varz").String(), nil)
	if err != nil {
		return m, mask.ErrAddress
	}
	answer, err := http.DefaultClient.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok { // its text has the address
		return m, mask.Error(failed.Err, u.RawQuery)
	}
	if err != nil {
		return m, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return m, fmt.Errorf("the answer has the status %s", answer.Status)
	}
	return m, json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&m)
}
