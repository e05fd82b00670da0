package admission

// This file says whether an attempt may begin. The reasons stand in table.

func (p *plan) fits(a *Attempt) bool {
	return a.host.under < a.host.places(a) && a.inbox.under < a.host.most(a.inbox, a) && !p.laneFull(a)
}

func (p *plan) laneFull(a *Attempt) bool {
	return a.Lane.Places > 0 && p.lane(a.Lane).under >= a.Lane.Places
}

// free is how many more attempts hosts like h may have under way: the first of a site at prompt hosts
// while there are files and memory, others while there are places. What has become old at prompt
// hosts takes none of those for sites that have held nothing.
func (p *plan) free(h *host) int {
	all := max(0, p.b.Places-p.under) + max(0, p.b.Spare-int(p.spare.Load()))
	left := min(all, p.b.Places-p.under+p.firsts)
	switch {
	case h.class == prompt && h.site.bounds[prompt].under == 0:
		return all
	case h.class == prompt:
		return left
	case h.site.held == nothing:
		return min(left-p.b.Places/8, part(p.b.Places)-p.classes[others].under)
	default:
		return min(left-p.b.Places/8, part(part(p.b.Places))-p.others)
	}
}

// processors is how many more attempts at hosts of a class may be unsigned.
func (p *plan) processors(c class) int {
	n := p.b.Computing - p.computing[prompt] - p.computing[others]
	if c == others {
		n = min(n, part(p.b.Computing)-p.computing[others])
	}
	return n
}

// shared reports whether a host's site may hold one more place: its first, or one of its share.
// Hanging attempts at other hosts of the site do not count against a prompt host.
func (p *plan) shared(h *host) bool {
	s, c := h.site, h.class
	under, kept := s.bounds[prompt].under, 8
	if c == others {
		under, kept = under+s.bounds[others].under, 16
	}
	return under == 0 || under < p.free(h)-p.b.Places/kept
}

// stuck is the rule that keeps an attempt from beginning.
func (p *plan) stuck(a *Attempt) rule {
	h, i := a.host, a.inbox
	switch {
	case i.under > 0 && (a.Alone || i.alone):
		return inboxAlone
	case h.under >= h.places(a):
		return hostWindow
	case i.under >= h.most(i, a):
		return inboxShare
	case p.laneFull(a):
		return protocolPlaces
	case p.free(h) <= 0 && h.class == prompt:
		return allPlaces
	case p.free(h) <= 0:
		return othersPlaces
	case p.processors(h.class) <= 0:
		return allComputing
	case !p.shared(h):
		return siteShare
	}
	return none
}
