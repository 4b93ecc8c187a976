# Completion of dsrun-job for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_job_options --description 'Test whether an option may come next'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case __ranks __rank __role __html _H __hostfile __host _i __include _e __exclude __num_nodes __python __launcher __launcher_args __launcher_path __ssh_port __connect_timeout __start_timeout __grace __shutdown_timeout
                set value yes
            case '_*'
            case '*'
                return 1
        end
    end
    return 0
end

function __dsrun_job_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

complete -c dsrun-job -f
complete -c dsrun-job -a 'list top logs stacks signal scale kill (dsrun-job list 2>/dev/null | string replace -r " .*" "" | string match -v NAME)'
complete -c dsrun-job -n __dsrun_job_options -s f -l follow -d 'logs: continue with what comes later'
complete -c dsrun-job -n __dsrun_job_options -l ranks -l rank -x -d 'logs, stacks: only of these: 0,8-15'
complete -c dsrun-job -n __dsrun_job_options -l role -x -d 'Only this role of the job'
complete -c dsrun-job -n __dsrun_job_options -l all_threads -d 'stacks: all threads and processes, with all frames'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l all-threads -d 'stacks: all threads and processes, with all frames'
complete -c dsrun-job -n __dsrun_job_options -l native -d 'stacks: C and C++ frames, too; takes seconds'
complete -c dsrun-job -n __dsrun_job_options -l save -d 'stacks: also write files beside the ranks\' logs'
complete -c dsrun-job -n __dsrun_job_options -l ended -d 'list: detached jobs that have ended'
complete -c dsrun-job -n __dsrun_job_options -l html -r -F -d 'report: draw it into FILE'
complete -c dsrun-job -n __dsrun_job_options -l all -d 'forget: all that have ended'
complete -c dsrun-job -n __dsrun_job_options -l json -d 'Print JSON'
complete -c dsrun-job -n __dsrun_job_options -l now -d 'kill: without the grace'
complete -c dsrun-job -n __dsrun_job_options -s h -l help -d 'Print this help'
complete -c dsrun-job -n __dsrun_job_options -s H -l hostfile -r -F -d 'Read the hosts from FILE, one per line, in the order of their ranks: ...'
complete -c dsrun-job -n __dsrun_job_options -l host -x -a '(__fish_print_hostnames)' -d 'Use these hosts instead of a hostfile: h1:4,h2:0-3'
complete -c dsrun-job -n __dsrun_job_options -s i -l include -x -d 'Use only these hosts and slots: worker-0@worker-1:0,2-3'
complete -c dsrun-job -n __dsrun_job_options -s e -l exclude -x -d 'Use all hosts and slots except these'
complete -c dsrun-job -n __dsrun_job_options -l num_nodes -x -d 'Use the first N hosts'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l num-nodes -x -d 'Use the first N hosts'
complete -c dsrun-job -n __dsrun_job_options -l python -r -F -d 'Python interpreter on the nodes, version 3.10 or newer, for node ...'
complete -c dsrun-job -n __dsrun_job_options -l launcher -x -a 'auto local ssh openssh pdsh openmpi mpich impi mvapich slurm' -d 'How the nodes are started: auto, local, ssh, openssh, pdsh, openmpi, ...'
complete -c dsrun-job -n __dsrun_job_options -l launcher_args -x -d 'Further arguments for the program of the launcher (ssh, pdsh, ...'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l launcher-args -x -d 'Further arguments for the program of the launcher (ssh, pdsh, ...'
complete -c dsrun-job -n __dsrun_job_options -l launcher_path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l launcher-path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-job -n __dsrun_job_options -l ssh_port -x -d 'Port of sshd on hosts for which the list of hosts gives no port'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l ssh-port -x -d 'Port of sshd on hosts for which the list of hosts gives no port'
complete -c dsrun-job -n __dsrun_job_options -l accept_new_host_keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l accept-new-host-keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-job -n __dsrun_job_options -l force_multi -d 'Reach this machine over the launcher, like any other host'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l force-multi -d 'Reach this machine over the launcher, like any other host'
complete -c dsrun-job -n __dsrun_job_options -l connect_timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l connect-timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-job -n __dsrun_job_options -l start_timeout -x -d 'Time limit until all nodes are ready to start their workers, and for ...'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l start-timeout -x -d 'Time limit until all nodes are ready to start their workers, and for ...'
complete -c dsrun-job -n __dsrun_job_options -l grace -l shutdown_timeout -x -d 'Time between the stop signal and SIGKILL, for all ranks on all nodes ...'
complete -c dsrun-job -n '__dsrun_job_options; and __dsrun_job_dashes' -l shutdown-timeout -x -d 'Time between the stop signal and SIGKILL, for all ranks on all nodes ...'
