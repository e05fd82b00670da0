# fish completion of fedpost: fedpost completion fish | source
function __fedpost_complete
	set -l words (commandline -opc)
	set -l found (command fedpost __complete -- $words[2..-1] (commandline -ct | string collect --allow-empty) 2>/dev/null)
	if test (count $found) -gt 0
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c fedpost -f -a '(__fedpost_complete)'
