#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/region_ops.h"

namespace cairn::coordinator_test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(5ms);
    }
    return true;
}

Client::Client(const std::string& socket) {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    const timeval limit{15, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    fd_ = std::move(fd);
}

bool Client::send(const std::string& text) const {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

Json Client::next() const {
    std::vector<char> buffer(1 << 20);
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n <= 0) return nullptr;
    return Json::parse(buffer.data(), buffer.data() + n, nullptr, false);
}

Json Client::until(const std::string& event) {
    for (;;) {
        Json one = next();
        if (!one.is_object()) return nullptr;
        const std::string kind = one.value("event", "");
        if (kind == event || kind == "done" || kind == "failed") return one;
        events.push_back(std::move(one));
    }
}

Json Client::ask(const Json& request) {
    events.clear();
    if (!send(request.dump())) return nullptr;
    return until("done");
}

FakeProgram::FakeProgram(const std::string& path, How how) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* at = ::mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) ::_exit(1);
    auto& region = *static_cast<Region*>(at);
    // A slot is believed of whom the kernel says that he has mapped both.
    if (how.library || how.registers) {
        const std::string library = path.substr(0, path.rfind('/')) + "/libcairn.so";
        const int file = ::open(library.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (::ftruncate(file, 4096) != 0) ::_exit(1);
        ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    }
    const KernelId pid(::getpid());
    if (how.bears) {
        claim_slot(region, pid);
        announce_change(region);
    } else if (how.registers) {
        const std::int32_t index = claim_slot(region, KernelId(::getppid()));
        timespec now{};
        ::clock_gettime(CLOCK_BOOTTIME, &now);
        Slot& slot = region.slots[index];
        slot.born_ns =
            static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
        slot.region_at = reinterpret_cast<std::uint64_t>(at);
        if (how.nameless)
            insert_id(region.ids, program_id_of_same_number(pid), KernelId(pid.number() + away));
        else
            set_program_pid(slot, pid, program_id_of_same_number(pid));
        name_slot(region, index, pid);
        slot.state = SlotState::running;
        announce_change(region);
    }
    for (;;) ::pause();
}

void FakeProgram::end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

bool FakeProgram::lives() {
    return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0;
}

void CoordinatorTest::SetUp() {
    char name[] = "/tmp/cairn-coordinator-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    session_ = root_ + "/run/test";
    worker("ok");
}

void CoordinatorTest::TearDown() {
    kill_coordinator();
    if (HasFailure()) {
        std::ifstream log(root_ + "/out");
        std::cerr << log.rdbuf();
    }
    fs::remove_all(root_);
}

void CoordinatorTest::start(std::vector<std::string> arguments) {
    std::vector<std::string> words{CAIRN_COORDINATOR, "--session", "test", "--ckptdir", ckptdir()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    coordinator_ = ::fork();
    ASSERT_GE(coordinator_, 0);
    if (coordinator_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::setenv("CAIRN_RUNDIR", (root_ + "/run").c_str(), 1);
        ::setenv("CAIRN_CAPTURE", CAIRN_TEST_FOLDER "/fake_capture.py", 1);
        ::setenv("CAIRN_FAKE_CAPTURE", (root_ + "/order").c_str(), 1);
        for (const char* setting : {"CAIRN_SESSION", "CAIRN_CKPTDIR", "CAIRN_INTERVAL", "CAIRN_KEEP"})
            ::unsetenv(setting);
        const int null = ::open("/dev/null", O_RDONLY);
        const int out = ::open((root_ + "/out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(null, 0);
        ::dup2(out, 1);
        ::dup2(out, 2);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    ASSERT_TRUE(eventually([this] { return client().connected() && status().is_object(); }));
}

void CoordinatorTest::kill_coordinator() {
    if (coordinator_ <= 0) return;
    ::kill(coordinator_, SIGKILL);
    ::waitpid(coordinator_, nullptr, 0);
    coordinator_ = -1;
}

bool CoordinatorTest::coordinator_lives() {
    return coordinator_ > 0 && ::waitpid(coordinator_, nullptr, WNOHANG) == 0;
}

int CoordinatorTest::wait_for_exit() {
    int status = 0;
    const pid_t pid = coordinator_;
    if (!eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; })) return -1;
    coordinator_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool CoordinatorTest::has_members(std::size_t n) const {
    return eventually([&] { return status().value("processes", std::size_t{9999}) == n; });
}

void CoordinatorTest::worker(const std::string& order) const {
    std::ofstream(root_ + "/order") << order << "\n";
}
void CoordinatorTest::hold() const {
    std::ofstream(root_ + "/order.hold") << "";
}
void CoordinatorTest::let_go() const {
    fs::remove(root_ + "/order.hold");
}

std::size_t CoordinatorTest::files_matching(const std::string& suffix) const {
    std::size_t n = 0;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(ckptdir(), ignored))
        if (entry.path().string().ends_with(suffix)) ++n;
    return n;
}

}  // namespace cairn::coordinator_test
