# Completion of dsrun-hold for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_hold_words --description 'Print the words before the cursor that are no options'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case __name __idle_timeout __release _H __hostfile __host _i __include _e __exclude __num_nodes __rank_order __segment __num_gpus __num_accelerators __python __workdir __preload __container __mount __container_args __export __env_file __launcher __launcher_args __launcher_path __ssh_port __control_port __connect_timeout __start_timeout __color __log_level __grace __shutdown_timeout __heartbeat_timeout __accelerator __profile
                set value yes
            case '_*'
            case '*'
                string escape -- $word
        end
    end
end

function __dsrun_hold_options --description 'Test whether an option may come next'
    set -l words (__dsrun_hold_words)
    test -z "$words"
end

function __dsrun_hold_look --description 'Print what is there and may be the value or word'
    set -l typed (string replace -r '^--[^=]*=' '' -- (commandline -ct))
    set -l found (dsrun-job --complete $argv[1] "$typed" (commandline -opc)[2..] 2>/dev/null)
    printf '%s\n' $found
    test $argv[1] = hosts -a -z "$found"; and __fish_print_hostnames
end

function __dsrun_hold_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

complete -c dsrun-hold -f
complete -c dsrun-hold -n __dsrun_hold_options -l name -x -d 'Name of the hold, for --on and --release'
complete -c dsrun-hold -n __dsrun_hold_options -l idle_timeout -x -d 'Release the nodes after this time without a job; 0: never'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l idle-timeout -x -d 'Release the nodes after this time without a job; 0: never'
complete -c dsrun-hold -n __dsrun_hold_options -l detach -d 'Return once the nodes are ready; the hold goes on, even after a logout'
complete -c dsrun-hold -n __dsrun_hold_options -l release -x -a '(__dsrun_hold_look holds)' -d 'Stop this hold and its jobs'
complete -c dsrun-hold -n __dsrun_hold_options -s h -l help -d 'Print this help'
complete -c dsrun-hold -n __dsrun_hold_options -s H -l hostfile -r -F -d 'Read the hosts from FILE, one per line, in the order of their ranks: ...'
complete -c dsrun-hold -n __dsrun_hold_options -l host -x -a '(__dsrun_hold_look hosts)' -d 'Use these hosts instead of a hostfile: h1:4,h2:0-3'
complete -c dsrun-hold -n __dsrun_hold_options -s i -l include -x -a '(__dsrun_hold_look hosts)' -d 'Use only these hosts and slots: worker-0@worker-1:0,2-3'
complete -c dsrun-hold -n __dsrun_hold_options -s e -l exclude -x -a '(__dsrun_hold_look hosts)' -d 'Use all hosts and slots except these'
complete -c dsrun-hold -n __dsrun_hold_options -l num_nodes -x -d 'Use the first N hosts'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l num-nodes -x -d 'Use the first N hosts'
complete -c dsrun-hold -n __dsrun_hold_options -l rank_order -x -a 'slurm blocks' -d 'Assign ranks to the nodes by their place in the network: by Slurm\'s ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l rank-order -x -a 'slurm blocks' -d 'Assign ranks to the nodes by their place in the network: by Slurm\'s ...'
complete -c dsrun-hold -n __dsrun_hold_options -l segment -x -d 'Assign ranks so that every N consecutive nodes are in the same block'
complete -c dsrun-hold -n __dsrun_hold_options -l num_gpus -l num_accelerators -x -d 'Use the first N slots of every host'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l num-gpus -l num-accelerators -x -d 'Use the first N slots of every host'
complete -c dsrun-hold -n __dsrun_hold_options -l standalone -d 'Use this machine only, even inside a scheduler\'s allocation'
complete -c dsrun-hold -n __dsrun_hold_options -l python -r -F -d 'Python interpreter on the nodes, version 3.10 or newer, for node ...'
complete -c dsrun-hold -n __dsrun_hold_options -l workdir -x -a '(__fish_complete_directories)' -d 'Working directory of the workers'
complete -c dsrun-hold -n __dsrun_hold_options -l preload -x -d 'Import these modules once on each node, and fork the workers from ...'
complete -c dsrun-hold -n __dsrun_hold_options -l container -x -d 'Run the node launcher of each node, and so the workers, in a ...'
complete -c dsrun-hold -n __dsrun_hold_options -l mount -x -d 'With --container: mount A of each node at B, by default at A'
complete -c dsrun-hold -n __dsrun_hold_options -l container_args -x -d 'With --container: extra arguments for the runtime\'s client, as one ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l container-args -x -d 'With --container: extra arguments for the runtime\'s client, as one ...'
complete -c dsrun-hold -n __dsrun_hold_options -l export -x -d 'Send this variable to the nodes, with VALUE or else its current value'
complete -c dsrun-hold -n __dsrun_hold_options -l env_file -r -F -d 'Send the variables of FILE, one NAME=VALUE per line'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l env-file -r -F -d 'Send the variables of FILE, one NAME=VALUE per line'
complete -c dsrun-hold -n __dsrun_hold_options -l launcher -x -a 'auto local ssh openssh pdsh openmpi mpich impi mvapich slurm' -d 'How the nodes are started: auto, local, ssh, openssh, pdsh, openmpi, ...'
complete -c dsrun-hold -n __dsrun_hold_options -l launcher_args -x -d 'Extra arguments for the launcher\'s program (ssh, pdsh, mpirun, srun, ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l launcher-args -x -d 'Extra arguments for the launcher\'s program (ssh, pdsh, mpirun, srun, ...'
complete -c dsrun-hold -n __dsrun_hold_options -l launcher_path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l launcher-path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-hold -n __dsrun_hold_options -l ssh_port -x -d 'Port of sshd on hosts that are listed without a port'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l ssh-port -x -d 'Port of sshd on hosts that are listed without a port'
complete -c dsrun-hold -n __dsrun_hold_options -l accept_new_host_keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l accept-new-host-keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-hold -n __dsrun_hold_options -l force_multi -d 'Reach this machine through the launcher, like any other host'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l force-multi -d 'Reach this machine through the launcher, like any other host'
complete -c dsrun-hold -n __dsrun_hold_options -l control_port -x -d 'Port on which dsrun accepts connections from node launchers (pdsh, ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l control-port -x -d 'Port on which dsrun accepts connections from node launchers (pdsh, ...'
complete -c dsrun-hold -n __dsrun_hold_options -l connect_timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l connect-timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-hold -n __dsrun_hold_options -l start_timeout -x -d 'Time limit until all nodes are ready to start workers, and for each ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l start-timeout -x -d 'Time limit until all nodes are ready to start workers, and for each ...'
complete -c dsrun-hold -n __dsrun_hold_options -l color -x -a 'auto always never' -d 'Use colours, and redraw unfinished lines such as progress bars. ...'
complete -c dsrun-hold -n __dsrun_hold_options -l log_level -x -a 'debug info warning error critical' -d 'Print dsrun\'s own messages from this level up'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l log-level -x -a 'debug info warning error critical' -d 'Print dsrun\'s own messages from this level up'
complete -c dsrun-hold -n __dsrun_hold_options -s q -l quiet -d 'Print only errors among dsrun\'s own messages'
complete -c dsrun-hold -n __dsrun_hold_options -l grace -l shutdown_timeout -x -d 'Time between the stop signal and SIGKILL, for all ranks on all nodes ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l shutdown-timeout -x -d 'Time between the stop signal and SIGKILL, for all ranks on all nodes ...'
complete -c dsrun-hold -n __dsrun_hold_options -l heartbeat_timeout -x -d 'Time without a message after which a node, or dsrun itself, is ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l heartbeat-timeout -x -d 'Time without a message after which a node, or dsrun itself, is ...'
complete -c dsrun-hold -n __dsrun_hold_options -l accelerator -x -a 'cuda rocm xpu npu hpu mlu musa sdaa neuron tpu mps cpu' -d 'Kind of device to use: cuda, rocm, xpu, npu, hpu, mlu, musa, sdaa, ...'
complete -c dsrun-hold -n __dsrun_hold_options -l profile -x -a '(__dsrun_hold_look profiles)' -d 'Use the values of [profile.NAME] in the configuration files: the ...'
complete -c dsrun-hold -n __dsrun_hold_options -l show_config -d 'Print every option that is set, its value and where it is set, and ...'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l show-config -d 'Print every option that is set, its value and where it is set, and ...'
complete -c dsrun-hold -n __dsrun_hold_options -l no_config -d 'Read no configuration files'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l no-config -d 'Read no configuration files'
complete -c dsrun-hold -n __dsrun_hold_options -l trust_here -d 'Trust the dsrun.toml that this command finds, for this command only'
complete -c dsrun-hold -n '__dsrun_hold_options; and __dsrun_hold_dashes' -l trust-here -d 'Trust the dsrun.toml that this command finds, for this command only'
