//go:build linux

package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plotAll writes the plots for which there are results, and returns their file names.
func plotAll(r *Results, base string) (map[string]string, error) {
	made := map[string]string{}
	// Those who look at it have other fonts, most of which are wider than a serif.
	plot.DefaultFont.Variant = "Sans"
	for name, make := range map[string]func(*Results) (*plot.Plot, vg.Length){
		"handoff": plotHandoff, "p99": plotP99,
	} {
		p, height := make(r)
		if p == nil {
			continue
		}
		p.BackgroundColor = color.White
		p.X.Padding, p.Y.Padding = 2*vg.Millimeter, 4*vg.Millimeter
		p.Y.Tick.Label.Font.Size, p.X.Tick.Label.Font.Size = 9, 9
		path := base + "-" + name + ".svg"
		if err := p.Save(18*vg.Centimeter, height, path); err != nil {
			return nil, fmt.Errorf("plot %s: %w", name, err)
		}
		made[name] = filepath.Base(path)
	}
	return made, nil
}

var (
	oursColor  = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	floorColor = color.RGBA{R: 0x55, G: 0x55, B: 0x55, A: 0xff}
	otherColor = color.RGBA{R: 0x7f, G: 0xa8, B: 0xd0, A: 0xff}
)

func colorOf(name string) color.Color {
	switch {
	case name == oursName:
		return oursColor
	case isFloor(name):
		return floorColor
	}
	return otherColor
}

// plotHandoff shows medians with quartiles, the fastest on top.
func plotHandoff(r *Results) (*plot.Plot, vg.Length) {
	var all []Figure
	for _, f := range r.Handoff {
		if f.Setting == r.Handoff[0].Setting && f.N > 0 {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil, 0
	}
	slices.SortFunc(all, func(a, b Figure) int { return int(b.Median - a.Median) })
	p := plot.New()
	p.Title.Text = "Hand-off between two processes: median and quartiles"
	p.X.Label.Text = "µs (logarithmic)"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	var names []string
	for i, f := range all {
		names = append(names, f.Peer)
		y := float64(i)
		line, _ := plotter.NewLine(plotter.XYs{{X: f.Low / 1e3, Y: y}, {X: max(f.High, f.Low*1.001) / 1e3, Y: y}})
		dot, _ := plotter.NewScatter(plotter.XYs{{X: f.Median / 1e3, Y: y}})
		line.Color, line.Width = colorOf(f.Peer), 5
		dot.Color, dot.Radius = colorOf(f.Peer), 5
		dot.Shape = draw.CircleGlyph{}
		p.Add(line, dot)
	}
	p.NominalY(names...)
	p.Add(plotter.NewGrid())
	return p, vg.Length(len(all))*0.55*vg.Centimeter + 3*vg.Centimeter
}

// plotP99 shows how the 99th percentile of waits grows with the number of processes.
func plotP99(r *Results) (*plot.Plot, vg.Length) {
	p := plot.New()
	p.Title.Text = "99th percentile of waits, lock held for 2 ms, no pause"
	p.X.Label.Text, p.Y.Label.Text = "processes", "ms (logarithmic)"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Scale = plot.LogScale{}
	var ticks []plot.Tick
	lines := 0
	for _, peer := range r.Peers {
		var points plotter.XYs
		for _, c := range r.Contention {
			if c.Peer == peer.Name && c.ThinkMS == 0 && c.P99 > 0 {
				points = append(points, plotter.XY{X: float64(c.N), Y: c.P99 / 1e6})
				if len(ticks) < len(points) {
					ticks = append(ticks, plot.Tick{Value: float64(c.N), Label: fmt.Sprint(c.N)})
				}
			}
		}
		if len(points) < 2 || peer.Name == protocolName {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			continue
		}
		line.Color, line.Width = shade(peer.Name, lines), 1.5
		line.Dashes = [][]vg.Length{nil, {6, 3}, {2, 2}}[lines%3]
		if peer.Name == oursName {
			line.Width, line.Dashes = 4, nil
		}
		p.Add(line)
		p.Legend.Add(peer.Name, line)
		lines++
	}
	if lines == 0 {
		return nil, 0
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Max *= 8 // room for the legend
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.Padding = true, true, 11.5*vg.Centimeter, vg.Millimeter
	p.Legend.TextStyle.Font.Size = font.Length(8)
	p.Add(plotter.NewGrid())
	return p, 14 * vg.Centimeter
}

// shade gives peers different colors, and ours its own.
func shade(name string, i int) color.Color {
	if name == oursName || isFloor(name) {
		return colorOf(name)
	}
	palette := []color.Color{
		color.RGBA{0x1f, 0x77, 0xb4, 0xff}, color.RGBA{0xff, 0x7f, 0x0e, 0xff}, color.RGBA{0x2c, 0xa0, 0x2c, 0xff},
		color.RGBA{0x94, 0x67, 0xbd, 0xff}, color.RGBA{0x8c, 0x56, 0x4b, 0xff}, color.RGBA{0xe3, 0x77, 0xc2, 0xff},
		color.RGBA{0x17, 0xbe, 0xcf, 0xff},
	}
	return palette[i%len(palette)]
}
