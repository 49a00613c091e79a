// A coordinator of our own in a folder of our own, clients for it, and processes that are members of its
// session.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/region.h"

namespace cairn::coordinator_test {

using Json = nlohmann::json;

// True as soon as `condition` is; false after 10 s.
[[nodiscard]] bool eventually(const std::function<bool()>& condition);

class Client {
  public:
    explicit Client(const std::string& socket);
    [[nodiscard]] bool connected() const { return static_cast<bool>(fd_); }
    [[nodiscard]] int fd() const { return fd_.get(); }
    bool send(const std::string& text) const;
    // The next event; null when the connection has ended or nothing came for 15 s.
    [[nodiscard]] Json next() const;
    // Sends and reads up to done or failed (null: the end). The events before it are in `events`.
    Json ask(const Json& request);
    Json until(const std::string& event);  // reads on up to this event, done, failed or the end
    std::vector<Json> events;
    void close() { fd_.reset(); }

  private:
    Fd fd_;
};

// A process that has the region mapped and a slot.
class FakeProgram {
  public:
    static constexpr int away = 3'000'000;
    struct How {
        bool registers = true;  // fills a slot
        bool library = false;   // maps a file called libcairn.so too
        bool nameless = false;  // has no name yet, and another goes by its number, whom the kernel calls so
                                // much more (`away`)
        bool bears = false;     // claims a slot for a birth that never comes, then ends
    };
    FakeProgram(const std::string& region, How how);
    explicit FakeProgram(const std::string& region) : FakeProgram(region, How()) {}
    FakeProgram(FakeProgram&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    ~FakeProgram() { end(); }
    [[nodiscard]] pid_t pid() const { return pid_; }
    void end();
    [[nodiscard]] bool lives();

  private:
    pid_t pid_;
};

class CoordinatorTest : public testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;

    void start(std::vector<std::string> arguments = {});
    void kill_coordinator();  // SIGKILL, as a fault
    [[nodiscard]] bool coordinator_lives();
    [[nodiscard]] int wait_for_exit();  // of the coordinator: its exit code, -1 after 10 s

    [[nodiscard]] Client client() const { return Client(session_ + "/socket"); }
    [[nodiscard]] Json ask(const Json& request) const { return client().ask(request); }
    [[nodiscard]] Json status() const { return ask({{"verb", "status"}}); }
    [[nodiscard]] std::string region() const { return session_ + "/region"; }
    [[nodiscard]] FakeProgram program() const { return FakeProgram(region()); }
    [[nodiscard]] bool has_members(std::size_t n) const;
    void worker(const std::string& order) const;  // what the worker does from now on
    void hold() const;
    void let_go() const;
    [[nodiscard]] std::string ckptdir() const { return root_ + "/ckpt"; }
    [[nodiscard]] std::size_t files_matching(const std::string& suffix) const;

    std::string root_, session_;
    pid_t coordinator_ = -1;
};

}  // namespace cairn::coordinator_test
