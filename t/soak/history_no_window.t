# t/soak/history.t without a retry window.

$ENV{HISTORY_WINDOW} //= 0;
do './t/soak/history.t' or die $@;
