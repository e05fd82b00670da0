#compdef fedpost
# zsh completion of fedpost: source <(fedpost completion zsh), or a file _fedpost in $fpath.
_fedpost() {
	local name says
	local -a found
	while IFS=$'\t' read -r name says; do
		found+=("${name//:/\\:}${says:+:$says}")
	done < <(command fedpost __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( $#found )); then
		_describe fedpost found
	else
		_files
	fi
}
if [[ $funcstack[1] == _fedpost ]]; then
	_fedpost "$@"
else
	compdef _fedpost fedpost
fi
