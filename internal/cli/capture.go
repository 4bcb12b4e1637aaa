package cli

// capture keeps the first and the last bytes of a stream, at most limit of them, and
// counts what is between.
type capture struct {
	limit      int
	head, tail []byte
	total      int64
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	k := min(c.limit-c.limit/2-len(c.head), n)
	c.head = append(c.head, p[:k]...)
	c.tail = append(c.tail, p[k:]...)
	// The tail is cut when it is twice as long as it may be: each byte is moved
	// at most once.
	if keep := c.limit / 2; len(c.tail) > 2*keep+len(p) {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keep:]...)
	}
	return n, nil
}

// bytes returns what was kept; omitted is the number of bytes between.
func (c *capture) bytes() (kept []byte, omitted int64) {
	tail := c.tail
	if keep := c.limit / 2; len(tail) > keep {
		tail = tail[len(tail)-keep:]
	}
	kept = append(c.head[:len(c.head):len(c.head)], tail...)
	return kept, c.total - int64(len(kept))
}
