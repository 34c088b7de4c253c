package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// launchArgs is a command line of launch, cut where its three readers change:
//
//	spectap launch [own] [server] -- [sweep]
//
// launch's own flags stand first and end at the first argument that is none of
// them, so that no name of theirs can be mistaken for one of the server's.
type launchArgs struct{ own, server, sweep []string }

// splitLaunch cuts the arguments behind the command's name.
func splitLaunch(args []string, own *pflag.FlagSet) (launchArgs, error) {
	var a launchArgs
	at := slices.Index(args, "--")
	if at < 0 {
		return a, errors.New("no -- among the arguments: want it between the server's and the sweep's, as in spectap launch MODEL --max-model-len 8192 -- --mtbench question.jsonl --save_dir results")
	}
	a.server, a.sweep = args[:at], args[at+1:]
	for len(a.server) > 0 {
		flag := ownFlag(a.server[0], own)
		if flag == "" {
			break
		}
		n := 1
		if !strings.Contains(a.server[0], "=") && own.Lookup(flag).NoOptDefVal == "" {
			n = 2
		}
		if len(a.server) < n {
			return a, fmt.Errorf("--%s has no value", flag)
		}
		a.own, a.server = append(a.own, a.server[:n]...), a.server[n:]
	}
	for _, arg := range a.server {
		if flag := ownFlag(arg, own); flag != "" {
			example := "--" + flag + " VALUE"
			if own.Lookup(flag).NoOptDefVal != "" {
				example = "--" + flag
			}
			return a, fmt.Errorf("cannot use --%s behind the server's arguments: put it before all of them, as in spectap launch %s MODEL", flag, example)
		}
	}
	return a, nil
}

// ownFlag returns the name of the flag of own that an argument is, or "".
func ownFlag(arg string, own *pflag.FlagSet) string {
	name, ok := strings.CutPrefix(arg, "--")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, "=")
	name = strings.ReplaceAll(name, "-", "_")
	if own.Lookup(name) == nil {
		return ""
	}
	return name
}

// splitWords cuts a command into words as a shell does: at blanks outside of
// quotes. '...' keeps all, "..." all but \" and \\, and \ outside of quotes keeps
// the next character. Nothing is expanded.
func splitWords(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	var quote rune // the open one; 0: none
	escaped := false
	for _, r := range command {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("want an end to its last quote or backslash")
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("want a command")
	}
	return words, nil
}

// joinWords is a command line that a shell reads as these words.
func joinWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, isSpecial) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// isSpecial tells whether a shell may read a character as something else.
func isSpecial(r rune) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%"
	return !strings.ContainsRune(plain, r)
}
