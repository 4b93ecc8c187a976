# Completion of dsrun-check for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_check_words --description 'Print the words before the cursor that are no options'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case __svg _H __hostfile __host __on __host_discovery_script _i __include _e __exclude __num_nodes __num_gpus __num_accelerators __python __workdir __venv_script __container __mount __container_args __export __env_file __launcher __launcher_args __launcher_path __ssh_port __control_port __connect_timeout __start_timeout __color __log_level __heartbeat_timeout __accelerator __profile
                set value yes
            case '_*'
            case '*'
                string escape -- $word
        end
    end
end

function __dsrun_check_options --description 'Test whether an option may come next'
    set -l words (__dsrun_check_words)
    test -z "$words"; or string match -q -r -- '^(--promises)$' (commandline -opc)
end

function __dsrun_check_look --description 'Print what is there and may be the value or word'
    set -l typed (string replace -r '^--[^=]*=' '' -- (commandline -ct))
    set -l found (dsrun-job --complete $argv[1] "$typed" (commandline -opc)[2..] 2>/dev/null)
    printf '%s\n' $found
    test $argv[1] = hosts -a -z "$found"; and __fish_print_hostnames
end

function __dsrun_check_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

complete -c dsrun-check -n __dsrun_check_options -l compare -d 'Print what differs between nodes instead of the table'
complete -c dsrun-check -n __dsrun_check_options -l report -d 'Print everything known about the nodes, torch and DeepSpeed included'
complete -c dsrun-check -n __dsrun_check_options -l full -d 'Also measure cores, memory, disks, devices, the network and collectives'
complete -c dsrun-check -n __dsrun_check_options -l svg -r -F -d 'With --full: draw the matrices in this file'
complete -c dsrun-check -n __dsrun_check_options -l promises -d 'Prove on these nodes what dsrun promises: small jobs with stand-in ...'
complete -c dsrun-check -n __dsrun_check_options -l dry_run -d 'With --promises: print the rows, and start nothing'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l dry-run -d 'With --promises: print the rows, and start nothing'
complete -c dsrun-check -n __dsrun_check_options -l json -d 'Print everything as JSON'
complete -c dsrun-check -n __dsrun_check_options -s h -l help -d 'Print this help'
complete -c dsrun-check -n __dsrun_check_options -s H -l hostfile -r -F -d 'Read the hosts from FILE, one per line, in the order of their ranks: ...'
complete -c dsrun-check -n __dsrun_check_options -l host -x -a '(__dsrun_check_look hosts)' -d 'Use these hosts instead of a hostfile: h1:4,h2:0-3'
complete -c dsrun-check -n __dsrun_check_options -l on -x -a '(__dsrun_check_look holds)' -d 'Run on the nodes that dsrun-hold keeps under this name, without ...'
complete -c dsrun-check -n __dsrun_check_options -l host_discovery_script -x -a '(__fish_complete_command)' -d 'Elastic jobs: run COMMAND every second and use the hosts that it ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l host-discovery-script -x -a '(__fish_complete_command)' -d 'Elastic jobs: run COMMAND every second and use the hosts that it ...'
complete -c dsrun-check -n __dsrun_check_options -s i -l include -x -a '(__dsrun_check_look hosts)' -d 'Use only these hosts and slots: worker-0@worker-1:0,2-3'
complete -c dsrun-check -n __dsrun_check_options -s e -l exclude -x -a '(__dsrun_check_look hosts)' -d 'Use all hosts and slots except these'
complete -c dsrun-check -n __dsrun_check_options -l num_nodes -x -d 'Use the first N hosts'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l num-nodes -x -d 'Use the first N hosts'
complete -c dsrun-check -n __dsrun_check_options -l num_gpus -l num_accelerators -x -d 'Use the first N slots of every host'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l num-gpus -l num-accelerators -x -d 'Use the first N slots of every host'
complete -c dsrun-check -n __dsrun_check_options -l standalone -d 'Use this machine only, even inside a scheduler\'s allocation'
complete -c dsrun-check -n __dsrun_check_options -l python -r -F -d 'Python interpreter on the nodes, version 3.10 or newer, for node ...'
complete -c dsrun-check -n __dsrun_check_options -l workdir -x -a '(__fish_complete_directories)' -d 'Working directory of the workers'
complete -c dsrun-check -n __dsrun_check_options -l venv_script -r -F -d 'Shell script that every node sources with bash before it starts the ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l venv-script -r -F -d 'Shell script that every node sources with bash before it starts the ...'
complete -c dsrun-check -n __dsrun_check_options -l container -x -d 'Run the node launcher of each node, and so the workers, in a ...'
complete -c dsrun-check -n __dsrun_check_options -l mount -x -d 'With --container: mount A of each node at B, by default at A'
complete -c dsrun-check -n __dsrun_check_options -l container_args -x -d 'With --container: extra arguments for the runtime\'s client, as one ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l container-args -x -d 'With --container: extra arguments for the runtime\'s client, as one ...'
complete -c dsrun-check -n __dsrun_check_options -l export -x -d 'Send this variable to the nodes, with VALUE or else its current value'
complete -c dsrun-check -n __dsrun_check_options -l env_file -r -F -d 'Send the variables of FILE, one NAME=VALUE per line'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l env-file -r -F -d 'Send the variables of FILE, one NAME=VALUE per line'
complete -c dsrun-check -n __dsrun_check_options -l launcher -x -a 'auto local ssh openssh pdsh openmpi mpich impi mvapich slurm' -d 'How the nodes are started: auto, local, ssh, openssh, pdsh, openmpi, ...'
complete -c dsrun-check -n __dsrun_check_options -l launcher_args -x -d 'Extra arguments for the launcher\'s program (ssh, pdsh, mpirun, srun, ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l launcher-args -x -d 'Extra arguments for the launcher\'s program (ssh, pdsh, mpirun, srun, ...'
complete -c dsrun-check -n __dsrun_check_options -l launcher_path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l launcher-path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-check -n __dsrun_check_options -l ssh_port -x -d 'Port of sshd on hosts that are listed without a port'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l ssh-port -x -d 'Port of sshd on hosts that are listed without a port'
complete -c dsrun-check -n __dsrun_check_options -l accept_new_host_keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l accept-new-host-keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-check -n __dsrun_check_options -l force_multi -d 'Reach this machine through the launcher, like any other host'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l force-multi -d 'Reach this machine through the launcher, like any other host'
complete -c dsrun-check -n __dsrun_check_options -l control_port -x -d 'Port on which dsrun accepts connections from node launchers (pdsh, ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l control-port -x -d 'Port on which dsrun accepts connections from node launchers (pdsh, ...'
complete -c dsrun-check -n __dsrun_check_options -l connect_timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l connect-timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-check -n __dsrun_check_options -l start_timeout -x -d 'Time limit until all nodes are ready to start workers, and for each ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l start-timeout -x -d 'Time limit until all nodes are ready to start workers, and for each ...'
complete -c dsrun-check -n __dsrun_check_options -l strict -d 'Treat warnings of the quick check as errors'
complete -c dsrun-check -n __dsrun_check_options -l color -x -a 'auto always never' -d 'Use colours, and redraw unfinished lines such as progress bars. ...'
complete -c dsrun-check -n __dsrun_check_options -l log_level -x -a 'debug info warning error critical' -d 'Print dsrun\'s own messages from this level up'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l log-level -x -a 'debug info warning error critical' -d 'Print dsrun\'s own messages from this level up'
complete -c dsrun-check -n __dsrun_check_options -s q -l quiet -d 'Print only errors among dsrun\'s own messages'
complete -c dsrun-check -n __dsrun_check_options -l heartbeat_timeout -x -d 'Time without a message after which a node, or dsrun itself, is ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l heartbeat-timeout -x -d 'Time without a message after which a node, or dsrun itself, is ...'
complete -c dsrun-check -n __dsrun_check_options -l accelerator -x -a 'cuda rocm xpu npu hpu mlu musa sdaa neuron tpu mps cpu' -d 'Kind of device to use: cuda, rocm, xpu, npu, hpu, mlu, musa, sdaa, ...'
complete -c dsrun-check -n __dsrun_check_options -l profile -x -a '(__dsrun_check_look profiles)' -d 'Use the values of [profile.NAME] in the configuration files: the ...'
complete -c dsrun-check -n __dsrun_check_options -l show_config -d 'Print every option that is set, its value and where it is set, and ...'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l show-config -d 'Print every option that is set, its value and where it is set, and ...'
complete -c dsrun-check -n __dsrun_check_options -l no_config -d 'Read no configuration files'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l no-config -d 'Read no configuration files'
complete -c dsrun-check -n __dsrun_check_options -l trust_here -d 'Trust the dsrun.toml that this command finds, for this command only'
complete -c dsrun-check -n '__dsrun_check_options; and __dsrun_check_dashes' -l trust-here -d 'Trust the dsrun.toml that this command finds, for this command only'
