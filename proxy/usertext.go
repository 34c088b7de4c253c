package proxy

import (
	"strings"

	"spectap/proxy/tap"
)

// userTexts are the raw user messages of a body.
type userTexts struct {
	count       int
	first, last []byte // raw content
}

// readUser finds the user messages of a chat, or the prompt of a completions request.
func readUser(m members, route tap.Route) userTexts {
	var u userTexts
	if route == tap.RouteCompletions {
		if prompt := firstPrompt(m.get("prompt")); prompt != nil {
			u = userTexts{count: 1, first: prompt, last: prompt}
		}
		return u
	}
	messages := m.get("messages")
	if len(messages) == 0 || messages[0] != '[' {
		return u
	}
	_, _ = tap.Elements(messages, 0, func(message []byte) bool {
		if content, role := roleAndContent(message); role == "user" {
			if u.count++; u.count == 1 {
				u.first = content
			}
			u.last = content
		}
		return true
	})
	return u
}

// firstPrompt returns the first prompt's raw value; a list of token ids is one prompt.
func firstPrompt(prompt []byte) []byte {
	if len(prompt) == 0 || prompt[0] != '[' {
		return prompt
	}
	first := prompt
	_, _ = tap.Elements(prompt, 0, func(element []byte) bool {
		if element[0] == '"' || element[0] == '[' {
			first = element
		}
		return false
	})
	return first
}

// roleAndContent returns the role of a message and its raw content.
func roleAndContent(message []byte) (content []byte, role string) {
	if message[0] != '{' {
		return nil, ""
	}
	_, _ = tap.Members(message, 0, func(key, value []byte, _, _ int) bool {
		switch unescape(key) {
		case "role":
			role = ""
			if value[0] == '"' {
				role = unescape(value[1 : len(value)-1])
			}
		case "content":
			content = value
		}
		return true
	})
	return content, role
}

// textOf returns the text of a raw content: a string, or the text parts of a
// list, joined. A list of token ids is its own JSON text.
func textOf(content []byte) string {
	if len(content) == 0 {
		return ""
	}
	switch content[0] {
	case '"':
		return unescape(content[1 : len(content)-1])
	case '[':
		return joinParts(content)
	}
	return ""
}

func joinParts(content []byte) string {
	var text strings.Builder
	tokens := false
	_, _ = tap.Elements(content, 0, func(part []byte) bool {
		if part[0] == '"' {
			text.WriteString(unescape(part[1 : len(part)-1]))
			return true
		}
		if tokens = part[0] != '{'; tokens {
			return false
		}
		_, _ = tap.Members(part, 0, func(key, value []byte, _, _ int) bool {
			if string(key) == "text" && value[0] == '"' {
				text.WriteString(unescape(value[1 : len(value)-1]))
			}
			return true
		})
		return true
	})
	if tokens {
		return string(content)
	}
	return text.String()
}
