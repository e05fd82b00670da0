# bash completion of fedpost: source <(fedpost completion bash)
_fedpost() {
	local IFS=$'\n'
	COMPREPLY=($(command fedpost __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _fedpost fedpost
