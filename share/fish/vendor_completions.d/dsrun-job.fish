# Completion of dsrun-job for fish.
# Written by `python -m docs.generate` from launcher/cli. Change those files instead.

function __dsrun_job_words --description 'Print the words before the cursor that are no options'
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
                string escape -- $word
        end
    end
end

function __dsrun_job_options --description 'Test whether an option may come next'
    set -l words (__dsrun_job_words)
    test -z "$words"; or contains -- $words[1] $argv
end

function __dsrun_job_look --description 'Print what is there and may be the value or word'
    set -l typed (string replace -r '^--[^=]*=' '' -- (commandline -ct))
    set -l found (dsrun-job --complete $argv[1] "$typed" (commandline -opc)[2..] 2>/dev/null)
    printf '%s\n' $found
    test $argv[1] = hosts -a -z "$found"; and __fish_print_hostnames
end

function __dsrun_job_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

function __dsrun_job_at --description 'Test whether a word comes next at one of these places'
    set -l words (__dsrun_job_words)
    contains -- "$words[1]:"(count $words) $argv
end

complete -c dsrun-job -f
complete -c dsrun-job -n '__dsrun_job_at :0' -a 'list top logs wait report forget stacks signal scale restart kill'
complete -c dsrun-job -n '__dsrun_job_at top:1 stacks:1' -a '(__dsrun_job_look jobs,programs)'
complete -c dsrun-job -n '__dsrun_job_at logs:1 wait:1 report:1' -a '(__dsrun_job_look jobs,programs,ended)'
complete -c dsrun-job -n '__dsrun_job_at forget:1' -a '(__dsrun_job_look ended)'
complete -c dsrun-job -n '__dsrun_job_at signal:1' -a '(__dsrun_job_look jobs,signals)'
complete -c dsrun-job -n '__dsrun_job_at signal:2' -a '(__dsrun_job_look signals)'
complete -c dsrun-job -n '__dsrun_job_at scale:1 restart:1' -a '(__dsrun_job_look jobs)'
complete -c dsrun-job -n '__dsrun_job_at kill:1' -a '(__dsrun_job_look jobs,holds)'
complete -c dsrun-job -n '__dsrun_job_options logs' -s f -l follow -d 'logs: keep printing new output'
complete -c dsrun-job -n '__dsrun_job_options logs stacks' -l ranks -l rank -x -d 'logs, stacks: only these ranks: 0,8-15'
complete -c dsrun-job -n '__dsrun_job_options top logs stacks signal scale restart' -l role -x -d 'Only this role of the job'
complete -c dsrun-job -n '__dsrun_job_options stacks' -l all_threads -d 'stacks: all threads and processes, with all frames'
complete -c dsrun-job -n '__dsrun_job_options stacks; and __dsrun_job_dashes' -l all-threads -d 'stacks: all threads and processes, with all frames'
complete -c dsrun-job -n '__dsrun_job_options stacks' -l native -d 'stacks: C and C++ frames, too; takes seconds'
complete -c dsrun-job -n '__dsrun_job_options stacks' -l save -d 'stacks: also write files next to the ranks\' logs'
complete -c dsrun-job -n '__dsrun_job_options list' -l ended -d 'list: show detached jobs that have ended'
complete -c dsrun-job -n '__dsrun_job_options report' -l html -r -F -d 'report: draw it in FILE'
complete -c dsrun-job -n '__dsrun_job_options forget' -l all -d 'forget: all jobs that have ended'
complete -c dsrun-job -n '__dsrun_job_options list top logs wait report forget stacks signal scale restart kill' -l json -d 'Print JSON'
complete -c dsrun-job -n '__dsrun_job_options kill' -l now -d 'kill: skip the grace period'
complete -c dsrun-job -n '__dsrun_job_options list top logs wait report forget stacks signal scale restart kill' -s h -l help -d 'Print this help'
complete -c dsrun-job -n '__dsrun_job_options kill' -s H -l hostfile -r -F -d 'Read the hosts from FILE, one per line, in the order of their ranks: ...'
complete -c dsrun-job -n '__dsrun_job_options kill' -l host -x -a '(__dsrun_job_look hosts)' -d 'Use these hosts instead of a hostfile: h1:4,h2:0-3'
complete -c dsrun-job -n '__dsrun_job_options kill' -s i -l include -x -a '(__dsrun_job_look hosts)' -d 'Use only these hosts and slots: worker-0@worker-1:0,2-3'
complete -c dsrun-job -n '__dsrun_job_options kill' -s e -l exclude -x -a '(__dsrun_job_look hosts)' -d 'Use all hosts and slots except these'
complete -c dsrun-job -n '__dsrun_job_options kill' -l num_nodes -x -d 'Use the first N hosts'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l num-nodes -x -d 'Use the first N hosts'
complete -c dsrun-job -n '__dsrun_job_options kill' -l python -r -F -d 'Python interpreter on the nodes, version 3.10 or newer, for node ...'
complete -c dsrun-job -n '__dsrun_job_options kill' -l launcher -x -a 'auto local ssh openssh pdsh openmpi mpich impi mvapich slurm' -d 'How the nodes are started: auto, local, ssh, openssh, pdsh, openmpi, ...'
complete -c dsrun-job -n '__dsrun_job_options kill' -l launcher_args -x -d 'Extra arguments for the launcher\'s program (ssh, pdsh, mpirun, srun, ...'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l launcher-args -x -d 'Extra arguments for the launcher\'s program (ssh, pdsh, mpirun, srun, ...'
complete -c dsrun-job -n '__dsrun_job_options kill' -l launcher_path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l launcher-path -r -F -d 'Path of the launcher\'s program, or of the directory that contains it'
complete -c dsrun-job -n '__dsrun_job_options kill' -l ssh_port -x -d 'Port of sshd on hosts that are listed without a port'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l ssh-port -x -d 'Port of sshd on hosts that are listed without a port'
complete -c dsrun-job -n '__dsrun_job_options kill' -l accept_new_host_keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l accept-new-host-keys -d 'Add unknown host keys to known_hosts'
complete -c dsrun-job -n '__dsrun_job_options kill' -l force_multi -d 'Reach this machine through the launcher, like any other host'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l force-multi -d 'Reach this machine through the launcher, like any other host'
complete -c dsrun-job -n '__dsrun_job_options kill' -l connect_timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l connect-timeout -x -d 'Time limit for connecting to a host'
complete -c dsrun-job -n '__dsrun_job_options kill' -l start_timeout -x -d 'Time limit until all nodes are ready to start workers, and for each ...'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l start-timeout -x -d 'Time limit until all nodes are ready to start workers, and for each ...'
complete -c dsrun-job -n '__dsrun_job_options kill' -l grace -l shutdown_timeout -x -d 'Time between the stop signal and SIGKILL, for all ranks on all nodes ...'
complete -c dsrun-job -n '__dsrun_job_options kill; and __dsrun_job_dashes' -l shutdown-timeout -x -d 'Time between the stop signal and SIGKILL, for all ranks on all nodes ...'
