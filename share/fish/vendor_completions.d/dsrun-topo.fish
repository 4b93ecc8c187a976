# Completion of dsrun-topo for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_topo_words --description 'Print the words before the cursor that are no options'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case __num_gpus __accelerator __bind_to __numa_binding __bind_core_list __bind_smt __bind_memory
                set value yes
            case '_*'
            case '*'
                string escape -- $word
        end
    end
end

function __dsrun_topo_options --description 'Test whether an option may come next'
    set -l words (__dsrun_topo_words)
    test -z "$words"
end

function __dsrun_topo_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

complete -c dsrun-topo -f
complete -c dsrun-topo -n __dsrun_topo_options -l num_gpus -x -d 'Number of ranks'
complete -c dsrun-topo -n '__dsrun_topo_options; and __dsrun_topo_dashes' -l num-gpus -x -d 'Number of ranks'
complete -c dsrun-topo -n __dsrun_topo_options -l accelerator -x -a 'cuda rocm xpu npu hpu mlu musa sdaa neuron tpu mps cpu' -d 'Kind of device to use'
complete -c dsrun-topo -n __dsrun_topo_options -l bind_to -x -a 'none core numa socket' -d 'What each rank is bound to'
complete -c dsrun-topo -n '__dsrun_topo_options; and __dsrun_topo_dashes' -l bind-to -x -a 'none core numa socket' -d 'What each rank is bound to'
complete -c dsrun-topo -n __dsrun_topo_options -l numa_binding -x -a 'node socket exclusive core-complex' -d 'What each rank is bound to, in torchrun\'s terms'
complete -c dsrun-topo -n '__dsrun_topo_options; and __dsrun_topo_dashes' -l numa-binding -x -a 'node socket exclusive core-complex' -d 'What each rank is bound to, in torchrun\'s terms'
complete -c dsrun-topo -n __dsrun_topo_options -l bind_core_list -x -d 'Use only these CPUs: 0,2-5'
complete -c dsrun-topo -n '__dsrun_topo_options; and __dsrun_topo_dashes' -l bind-core-list -x -d 'Use only these CPUs: 0,2-5'
complete -c dsrun-topo -n __dsrun_topo_options -l bind_smt -x -a 'yes no' -d 'Use all hardware threads of a core'
complete -c dsrun-topo -n '__dsrun_topo_options; and __dsrun_topo_dashes' -l bind-smt -x -a 'yes no' -d 'Use all hardware threads of a core'
complete -c dsrun-topo -n __dsrun_topo_options -l bind_memory -x -a 'auto bind preferred interleave none' -d 'Where ranks allocate memory'
complete -c dsrun-topo -n '__dsrun_topo_options; and __dsrun_topo_dashes' -l bind-memory -x -a 'auto bind preferred interleave none' -d 'Where ranks allocate memory'
complete -c dsrun-topo -n __dsrun_topo_options -l json -d 'Print one JSON object'
complete -c dsrun-topo -n __dsrun_topo_options -s h -l help -d 'Print this help'
