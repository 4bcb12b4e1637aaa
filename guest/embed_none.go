//go:build !berth_embed

package guest

// embedded returns nil: this program was built without the tag berth_embed.
func embedded(string) []byte { return nil }
