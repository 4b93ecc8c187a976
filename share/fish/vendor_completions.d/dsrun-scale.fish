# Completion of dsrun-scale for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_scale_options --description 'Test whether an option may come next'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case ''
                set value yes
            case '_*'
            case '*'
                return 1
        end
    end
    return 0
end

function __dsrun_scale_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

complete -c dsrun-scale -f
complete -c dsrun-scale -a '(dsrun-scale 2>/dev/null)'
complete -c dsrun-scale -n __dsrun_scale_options -s h -l help -d 'Print this help'
