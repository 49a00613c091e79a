// What being a member costs: fork+wait and fork+exec+wait with and without libcairn.so, in turns, in one run.
// births LIBRARY REGION: prints medians and 25th percentiles in microseconds, and the ratios.
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

double now_us() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double once(bool exec) {
    const double begin = now_us();
    const pid_t pid = fork();
    if (pid == 0) {
        if (exec) execl("/bin/true", "true", nullptr);
        _exit(exec ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return now_us() - begin;
}

// The worker: reads 'f' or 'e', does 50 rounds, writes the times.
int work() {
    char what = 0;
    while (read(0, &what, 1) == 1) {
        double times[50];
        for (double& time : times) time = once(what == 'e');
        if (write(1, times, sizeof times) != sizeof times) return 1;
    }
    return 0;
}

struct Worker {
    int to = -1, from = -1;
    explicit Worker(const std::vector<std::string>& variables) {
        int in[2], out[2];
        if (pipe(in) != 0 || pipe(out) != 0) std::exit(1);
        if (fork() == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            for (int fd : {in[0], in[1], out[0], out[1]}) close(fd);
            std::vector<char*> environment;
            for (const auto& text : variables) environment.push_back(const_cast<char*>(text.c_str()));
            environment.push_back(nullptr);
            char name[] = "births", command[] = "work";
            char* arguments[] = {name, command, nullptr};
            execve("/proc/self/exe", arguments, environment.data());
            _exit(1);
        }
        close(in[0]);
        close(out[1]);
        to = in[1];
        from = out[0];
    }
    void ask(char what, std::vector<double>& times) const {
        double got[50];
        std::size_t have = 0;
        if (write(to, &what, 1) != 1) std::exit(1);
        while (have < sizeof got) {
            const ssize_t n = read(from, reinterpret_cast<char*>(got) + have, sizeof got - have);
            if (n <= 0) std::exit(1);
            have += static_cast<std::size_t>(n);
        }
        times.insert(times.end(), std::begin(got), std::end(got));
    }
};

double quantile(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::strcmp(argv[1], "work") == 0) return work();
    if (argc != 3) return 2;
    const std::string library = argv[1], region = argv[2];
    const Worker native({"PATH=/bin"});
    const Worker member(
        {"PATH=/bin", "LD_PRELOAD=" + library, "CAIRN_LIBRARY=" + library, "CAIRN_REGION=" + region});
    for (const char what : {'f', 'e'}) {
        std::vector<double> plain, ours;
        for (int round = 0; round < 30; ++round) {
            native.ask(what, plain);
            member.ask(what, ours);
        }
        std::printf(
            "%-10s native p25 %7.1f median %7.1f us   member p25 %7.1f median %7.1f us   ratio %.2f %.2f\n",
            what == 'f' ? "fork+wait" : "fork+exec", quantile(plain, 0.25), quantile(plain, 0.5),
            quantile(ours, 0.25), quantile(ours, 0.5), quantile(ours, 0.25) / quantile(plain, 0.25),
            quantile(ours, 0.5) / quantile(plain, 0.5));
    }
}
