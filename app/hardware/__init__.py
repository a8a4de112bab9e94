"""The machine, llama.cpp builds for it, and the checks of `tandem doctor`.

system         files, vendor tools and memory of the operating system
cpu            CPU model, threads, quota, clock and use by other programs
gpus           GPUs, including those that llama.cpp cannot use
machine        everything above as one value
devices        devices and build of the installed llama.cpp
installation   how Tandem was installed, and the commands for that environment
build_choices  ready-made and compiled builds of llama-cpp-python for a machine, best first
builds         why the installed llama.cpp does not load, and the build that a machine needs
fit            the planner: placement of a pair on devices
offers         alternatives for a pair that does not fit
recommend      pairs that fit this machine, and their order
rpc            devices of other machines
checks         the checks of doctor, except for pairs
measured       speeds of a pair on this machine
"""
