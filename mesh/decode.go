package mesh

import (
	"errors"
	"fmt"
)

// What can be wrong with a frame. All but these two are plain malformation.
var (
	// ErrUnknownVersion says that a frame is of a version that this broker does not read.
	ErrUnknownVersion = errors.New("unknown frame version")
	// ErrUnknownKind says that a frame is of a kind that this build, or the frame's version, does not know.
	ErrUnknownKind = errors.New("unknown frame kind")
)

var (
	errTruncated = errors.New("frame ends early")
	errTrailing  = errors.New("bytes follow the frame")
	errType      = errors.New("field of an unexpected type")
	errMissing   = errors.New("required field is missing")
	errName      = errors.New("name is empty or too long")
	errOversize  = errors.New("frame is too long")
)

// Decode reads a frame of version 1 to maxVersion. The result shares no memory with data.
func Decode(data []byte, maxVersion uint8) (*Frame, error) {
	if len(data) > FrameLimit {
		return nil, errOversize
	}
	if len(data) == 0 {
		return nil, errTruncated
	}
	version := data[0]
	if version < FrameMin || version > min(maxVersion, FrameMax) {
		return nil, fmt.Errorf("%w: %d", ErrUnknownVersion, version)
	}
	f := &Frame{Version: version}
	c := &cursor{rest: data[1:]}
	var err error
	if version == 1 {
		err = c.frameV1(f)
	} else {
		err = c.frameV2(f)
	}
	if err != nil {
		return nil, err
	}
	if len(c.rest) != 0 {
		return nil, errTrailing
	}
	return f, nil
}

func (c *cursor) frameV1(f *Frame) error {
	fields, err := c.fields(2)
	if err != nil {
		return err
	}
	if f.Kind, err = c.kind(KindInvalidation); err != nil {
		return err
	}
	queue, err := c.name()
	if err != nil {
		return err
	}
	partition, wide := "", true
	if fields > 2 && !c.null() {
		wide = false
		if partition, err = c.text(); err != nil {
			return err
		}
	}
	if err := c.skip(fields - 3); err != nil {
		return err
	}
	if f.Kind == KindWake {
		f.Wakes = []Wake{{Queue: queue, Partition: partition, QueueWide: wide}}
		return nil
	}
	// What changed is not said, so everything that can be invalidated is.
	f.Invalidations = []Invalidation{{Queue: queue, OptionsChanged: true, CursorsMoved: true}}
	return nil
}

func (c *cursor) frameV2(f *Frame) error {
	fields, err := c.fields(5)
	if err != nil {
		return err
	}
	if f.Kind, err = c.kind(KindInterest); err != nil {
		return err
	}
	if f.Origin, err = c.uuid(); err != nil {
		return err
	}
	if f.Destination, err = c.uint(); err != nil {
		return err
	}
	number, err := c.uint()
	if err != nil {
		return err
	}
	f.Number = Number(number)
	switch f.Kind {
	case KindWake:
		err = c.wakes(f)
	case KindInvalidation:
		err = c.invalidations(f)
	case KindBeacon:
		err = c.beacon(f)
	case KindInterest:
		err = c.interest(f)
	default:
		err = c.skip(1)
	}
	if err != nil {
		return err
	}
	return c.skip(fields - 5)
}

func (c *cursor) wakes(f *Frame) error {
	items, err := c.array()
	if err != nil {
		return err
	}
	for range items {
		fields, err := c.fields(3)
		if err != nil {
			return err
		}
		var wake Wake
		if wake.Tenant, wake.TenantKnown, err = c.tenant(); err != nil {
			return err
		}
		if wake.Queue, err = c.name(); err != nil {
			return err
		}
		if c.null() {
			wake.QueueWide = true
			f.Wakes = append(f.Wakes, wake)
		} else {
			partitions, err := c.fields(1)
			if err != nil {
				return err
			}
			for range partitions {
				if wake.Partition, err = c.text(); err != nil {
					return err
				}
				f.Wakes = append(f.Wakes, wake)
			}
		}
		if err := c.skip(fields - 3); err != nil {
			return err
		}
	}
	return nil
}

func (c *cursor) invalidations(f *Frame) error {
	items, err := c.array()
	if err != nil {
		return err
	}
	for range items {
		fields, err := c.fields(5)
		if err != nil {
			return err
		}
		var item Invalidation
		if item.Tenant, item.TenantKnown, err = c.tenant(); err != nil {
			return err
		}
		if item.Queue, err = c.name(); err != nil {
			return err
		}
		version, err := c.uint()
		if err != nil {
			return err
		}
		if version > 1<<63-1 {
			return errType
		}
		item.Version = int64(version)
		flags, err := c.uint()
		if err != nil {
			return err
		}
		item.OptionsChanged = flags&flagOptionsChanged != 0
		item.Deleted = flags&flagDeleted != 0
		item.CursorsMoved = flags&flagCursorsMoved != 0
		if !c.null() {
			if item.Group, err = c.text(); err != nil {
				return err
			}
		}
		// An item whose flags are all newer than this build says nothing that it could act on.
		if item.flags() != 0 {
			f.Invalidations = append(f.Invalidations, item)
		}
		if err := c.skip(fields - 5); err != nil {
			return err
		}
	}
	return nil
}

func (c *cursor) beacon(f *Frame) error {
	fields, err := c.fields(2)
	if err != nil {
		return err
	}
	if f.Round, err = c.uint(); err != nil {
		return err
	}
	if f.Echo, err = c.bool(); err != nil {
		return err
	}
	if fields > 2 {
		if f.Generation, err = c.uint(); err != nil {
			return err
		}
	}
	return c.skip(fields - 3)
}

func (c *cursor) interest(f *Frame) error {
	fields, err := c.fields(2)
	if err != nil {
		return err
	}
	if f.Generation, err = c.uint(); err != nil {
		return err
	}
	if !c.null() {
		if f.Interest, err = c.bits(); err != nil {
			return err
		}
	}
	return c.skip(fields - 2)
}
