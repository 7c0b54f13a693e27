// go-oidc, as debian.py has other libraries.
//
// usage: go_oidc ISSUER AUDIENCE TOKEN CHANGED REFRESH

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	oidc "github.com/coreos/go-oidc"
)

func main() {
	issuer, audience := os.Args[1], os.Args[2]
	ctx := context.Background()
	keys := oidc.NewRemoteKeySet(ctx, issuer+"/.well-known/jwks.json")
	try := func(name string, config oidc.Config, token string, want string) {
		_, err := oidc.NewVerifier(issuer, keys, &config).Verify(ctx, token)
		got := fmt.Sprint(err)
		if want == "" && err == nil || want != "" && strings.Contains(got, want) {
			fmt.Println("ok go-oidc" + name)
		} else {
			fmt.Println("not ok go-oidc" + name + "\n" + got)
		}
	}
	config := oidc.Config{ClientID: audience}
	try(": a token", config, os.Args[3], "")
	try(": one bit changed", config, os.Args[4], "signature")
	try(": the refresh token", config, os.Args[5], "audience")
	try(", without an audience: the refresh token passes",
		oidc.Config{SkipClientIDCheck: true}, os.Args[5], "")
	fmt.Println("done")
}
