"""perl: a hash, regular expressions, children, an alarm."""
# ci: exact user (a user namespace adds ids, and other tests have those)
from cairn_test import same_as_undisturbed

PROGRAM = r"""
use strict; use warnings; use Time::HiRes qw(sleep alarm); $| = 1;
my (%seen, $alarms); $alarms = 0;
$SIG{ALRM} = sub { $alarms++; alarm(0.1) }; alarm(0.1);
for my $i (1 .. 30) {
    $seen{$i * 7919 % 1009} .= "x$i";
    my $pid = open(my $child, "-|") // die; 
    if (!$pid) { print "child says ", join(",", map { $_ * $i } 1 .. 5), "\n"; exit($i % 5) }
    my @lines = <$child>; close($child); 
    printf "%d %d %s", $i, $? >> 8, $lines[0];
    my $until = Time::HiRes::time() + 0.08;
    while ((my $left = $until - Time::HiRes::time()) > 0) { sleep($left) }
}
alarm(0); # none may come when perl takes itself down, and its handler with it
(my $text = join " ", map { "$_=$seen{$_}" } sort { $a <=> $b } keys %seen) =~ s/x(\d)/<$1>/g;
print "$text\n", $alarms > 5 ? "alarms\n" : "too few alarms: $alarms\n";
"""


def test(t):
    same_as_undisturbed(t, ["perl", "-e", PROGRAM], at_once=True)
