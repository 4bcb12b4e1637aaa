package place_test
import ("testing";"os";"fmt";"time")
func dump(t *testing.T, pid int) {
	for i:=0;i<8;i++ {
	d,err := os.ReadFile(fmt.Sprintf("/proc/%d/stat",pid)); t.Logf("%s %v", d,err); time.Sleep(300*time.Millisecond) }
}
