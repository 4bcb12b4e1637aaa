package killtest

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

const (
	owner    = "killtest" // of the jobs
	fileName = "whole"
	markName = "KILLTEST" // in the environment of the jobs
)

// jobScript is one job: it says in a file that it ran, and ends a little later.
const jobScript = `echo "$KEY" >>ran; echo begun; sleep 0.2; echo "$KEY done"; exit 3`

func startJob(ctx context.Context, s driver.Session, key, mark string) (spec.Job, error) {
	jobber, ok := s.(driver.Jobber)
	if !ok {
		return spec.Job{}, spec.New(spec.CodeUnsupported, "the place has no jobs")
	}
	c := &spec.Command{Args: spec.Shell(jobScript), Key: key, Env: map[string]string{"KEY": key, markName: mark}}
	return jobber.StartJob(ctx, c, spec.JobOptions{Owner: owner})
}

// lines is how many equal lines each version of the file has that Work replaces: more
// than travel in one message.
const lines = 20_000

// Work provisions the place that s means and works there until the process is killed. It
// starts jobs with keys that begin with prefix, and writes the id of each to said when it
// was told; beside that it replaces a file again and again. An error ends it.
func Work(d driver.Driver, s spec.Spec, prefix, mark string, said io.Writer) error {
	ctx := context.Background()
	session, err := d.Provision(ctx, &s, driver.ProvisionOptions{})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			text := strings.Repeat(fmt.Sprintf("%s-%d\n", prefix, n), lines)
			if err := session.Files().Write(ctx, fileName, strings.NewReader(text), int64(len(text)), files.WriteOptions{}); err != nil {
				failed <- err
				return
			}
		}
	}()
	const most = 40
	for n := range most {
		info, err := startJob(ctx, session, fmt.Sprintf("%s-%d", prefix, n), mark)
		if err != nil {
			return err
		}
		fmt.Fprintln(said, info.ID)
	}
	return <-failed
}
