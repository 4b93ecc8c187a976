# Completion of dsrun-elastic for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_elastic_words --description 'Print the words before the cursor that are no options'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case _c __config _w __world_size
                set value yes
            case '_*'
            case '*'
                string escape -- $word
        end
    end
end

function __dsrun_elastic_options --description 'Test whether an option may come next'
    set -l words (__dsrun_elastic_words)
    test -z "$words"
end

function __dsrun_elastic_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

complete -c dsrun-elastic -f
complete -c dsrun-elastic -n __dsrun_elastic_options -s c -l config -r -F -d 'The DeepSpeed config: JSON with an "elasticity" block, version 0.1 ...'
complete -c dsrun-elastic -n __dsrun_elastic_options -s w -l world_size -x -d 'Show only this number of ranks'
complete -c dsrun-elastic -n '__dsrun_elastic_options; and __dsrun_elastic_dashes' -l world-size -x -d 'Show only this number of ranks'
complete -c dsrun-elastic -n __dsrun_elastic_options -l json -d 'Print one JSON object, with the key names of DeepSpeed configs'
complete -c dsrun-elastic -n __dsrun_elastic_options -s h -l help -d 'Print this help'
