package trace

import (
	"strconv"

	"servesim/sim"
)

// begin opens the document.
func (c *Chrome) begin() {
	if c.lives != nil {
		return
	}
	c.lives = map[int64]chromeLife{}
	c.buf = append(c.buf, `{"displayTimeUnit":"ms","traceEvents":[`...)
	c.named("process_name", requestsPid, requestsPid, "requests", -1)
}

// named names a process or a thread.
func (c *Chrome) named(what string, pid, tid int64, name string, number int64) {
	c.head('M', what, pid, tid, 0)
	c.buf = append(c.buf, `,"args":{`...)
	if number >= 0 {
		name += " " + strconv.FormatInt(number, 10)
	}
	c.argString("name", name)
	c.closeEvent()
}

// count begins an event of a counter; its values are arguments.
func (c *Chrome) count(name string, pid, tid int64, at sim.Time) {
	c.head('C', name, pid, tid, at)
	c.buf = append(c.buf, `,"cat":"load","args":{`...)
}

// head begins an event. What the kind needs, arguments and closeEvent follow.
func (c *Chrome) head(ph byte, name string, pid, tid int64, at sim.Time) {
	if c.events++; c.events > 1 {
		c.buf = append(c.buf, ',')
	}
	c.buf = append(c.buf, "\n{\"ph\":\""...)
	c.buf = append(c.buf, ph)
	c.buf = append(c.buf, `","name":`...)
	c.buf = appendString(c.buf, name)
	c.buf = strconv.AppendInt(append(c.buf, `,"pid":`...), pid, 10)
	c.buf = strconv.AppendInt(append(c.buf, `,"tid":`...), tid, 10)
	c.buf = appendDecimal(append(c.buf, `,"ts":`...), int64(at), microsecond)
}

// async begins an event of the span of a request of the run.
func (c *Chrome) async(ph byte, name string, serial int64, at sim.Time) {
	c.head(ph, name, requestsPid, requestsPid, at)
	c.buf = strconv.AppendInt(append(c.buf, `,"cat":"request","id":"`...), serial, 10)
	c.buf = append(c.buf, `","args":{`...)
}

// asyncID is async for a request from elsewhere.
func (c *Chrome) asyncID(ph byte, name, id string, at sim.Time) {
	c.head(ph, name, requestsPid, requestsPid, at)
	c.buf = appendString(append(c.buf, `,"cat":"request","id":`...), id)
	c.buf = append(c.buf, `,"args":{`...)
}

// arg begins an argument.
func (c *Chrome) arg(name string) {
	if c.buf[len(c.buf)-1] != '{' {
		c.buf = append(c.buf, ',')
	}
	c.buf = append(appendString(c.buf, name), ':')
}

func (c *Chrome) argInt(name string, n int64) {
	c.arg(name)
	c.buf = strconv.AppendInt(c.buf, n, 10)
}

func (c *Chrome) argString(name, s string) {
	c.arg(name)
	c.buf = appendString(c.buf, s)
}

// argMicros writes a duration; its name gets the unit.
func (c *Chrome) argMicros(name string, d sim.Time) {
	c.arg(name)
	c.buf = append(c.buf[:len(c.buf)-2], `_us":`...)
	c.buf = appendDecimal(c.buf, int64(d), microsecond)
}

// closeEvent ends an event.
func (c *Chrome) closeEvent() { c.buf = append(c.buf, "}}"...) }
