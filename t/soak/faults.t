# t/fault_under_load.t with all its faults, each for longer and with more clients.

$ENV{FAULT_SECONDS} //= 20;
$ENV{FAULT_CLIENTS} //= 32;
do './t/fault_under_load.t' or die $@;
