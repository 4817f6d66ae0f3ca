package main

import (
	"slices"
)

// A topic is one thing that a plan can say about a place.
type topic struct {
	id    string   // as the guidebook's tool wants it
	title string   // as people say it
	words []string // by which a request asks for it
}

// topics are in the order in which a plan has them. The trains are the business of one agent, the
// others of another.
var topics = []topic{
	{"trains", "trains there and back", []string{"train", "get there", "travel to", "route"}},
	{"sleep", "where to sleep", []string{"sleep", "stay", "hotel", "room"}},
	{"eat", "where to eat", []string{"eat", "food", "restaurant", "dinner"}},
	{"see", "what to see", []string{"see", "sight", "museum", "visit"}},
	{"rain", "what to do when it rains", []string{"rain", "weather", "wet day"}},
}

// almanac is what the desk's tools know, by place and topic. It is an invented sample, not travel
// advice.
var almanac = map[string]map[string]string{
	"Ghent": {
		"trains": "Cologne 15:40, Brussels 17:35, Ghent 18:26; back Sunday 17:04, Cologne 20:15. 79 euros each, one change.",
		"sleep":  "Guesthouse Lievekaai, quiet side of the canal, 112 euros the room with breakfast, 20 minutes on foot.",
		"eat":    "De Groene Pan, vegetarian, mains from 17 euros; closed on Sundays, when the market hall takes over.",
		"see":    "The altarpiece early on Saturday, then the canals by hired boat; 16 and 9 euros, no queue before ten.",
		"rain":   "The museum of industry in the old cotton mill, top floor first; 11 euros, dry for three hours.",
	},
	"Porto": {
		"trains": "Cologne 15:40, Paris 19:02, night coach to Irun, Porto on Saturday 19:48; 214 euros each, three changes.",
		"sleep":  "Pensao do Carvalho, fourth floor, view of the river, 84 euros the room, no lift.",
		"eat":    "Cantina da Horta, vegetarian soup and bread at noon, 9 euros; ask for the day's plate.",
		"see":    "The lower deck of the iron bridge at dusk, then the tram along the river to the sea; 4 euros.",
		"rain":   "The bookshop is a queue. The photography centre in the old prison is none, and it is free.",
	},
	"Ljubljana": {
		"trains": "Cologne 15:53, Munich 20:35, sleeper to Ljubljana 06:12; back Sunday night. 168 euros each with a berth.",
		"sleep":  "Penzion Trnovo, garden side, 96 euros the room, breakfast with the neighbours' honey, 25 minutes on foot.",
		"eat":    "The open kitchen on the market square on Fridays, from 6 euros; else Gostilna Zelena, vegetarian on request.",
		"see":    "The market under the arcades, the castle on foot, the house of the architect by appointment; 12 euros.",
		"rain":   "The tram stays in the rain; the ethnographic museum does not. 6 euros, and a good cake.",
	},
}

// nothingOnFile begins the answer to a question about a place that is not on file.
const nothingOnFile = "nothing on file for "

// findEntry returns the entry on file, or an answer that begins with nothingOnFile.
func findEntry(place, id string) string {
	if entry := almanac[place][id]; entry != "" {
		return entry
	}
	return nothingOnFile + place
}

// knownPlaces are those on file, by name.
func knownPlaces() []string {
	names := make([]string, 0, len(almanac))
	for name := range almanac {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
