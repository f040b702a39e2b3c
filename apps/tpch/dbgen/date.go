package dbgen

import (
	"fmt"
	"time"
)

// Date is a day, counted from the benchmark's first, 1992-01-01.
type Date uint16

// today is the day on which the benchmark takes place: lines shipped or received by then have another status.
const today Date = 1263 // 1995-06-17

var firstDay = time.Date(1992, 1, 1, 0, 0, 0, 0, time.UTC)

// ParseDate reads a day such as 1995-03-15.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Before(firstDay) || t.Year() > 1998 {
		return 0, fmt.Errorf("date %q; allowed: 1992-01-01 to 1998-12-31", text)
	}
	return Date(t.Sub(firstDay) / (24 * time.Hour)), nil
}

// NextYear returns the same day a year later; as in SQL, February 28 after February 29.
func (d Date) NextYear() Date {
	day := firstDay.AddDate(0, 0, int(d))
	next := day.AddDate(1, 0, 0)
	if next.Month() != day.Month() {
		next = next.AddDate(0, 0, -1)
	}
	return d + Date(next.Sub(day)/(24*time.Hour))
}

func (d Date) String() string { return firstDay.AddDate(0, 0, int(d)).Format(time.DateOnly) }
