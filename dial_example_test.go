//go:build linux

package berth_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/berth-dev/berth"
)

// A server inside a place is reached without a published port. Here it is one of the
// caller's own, offered inside by Listen; a program that a command starts is reached in the
// same way.
func ExampleSandbox_HTTPTransport() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb, err := berth.Provision(ctx, d, berth.Spec{Isolation: berth.IsolationNone})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)
	inside, err := sb.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you asked for %s\n", r.URL.Path)
	})}
	go server.Serve(inside)
	defer server.Close()

	transport := sb.HTTPTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	response, err := client.Get("http://" + inside.Addr().String() + "/hello")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Printf("%s %s%v\n", response.Status, body, err)
	// Output:
	// 200 OK you asked for /hello
	// <nil>
}
