// What an ordinary user may not, tried in a unit test that root runs.
#pragma once

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

namespace cairn::test {

// The calling thread's effective capabilities (CAP_*) without some of them, for the scope; nothing else of an
// ordinary user's.
class WithoutCapabilities {
  public:
    explicit WithoutCapabilities(std::initializer_list<int> capabilities) {
        get(before_);
        __user_cap_data_struct less[2] = {before_[0], before_[1]};
        for (const int each : capabilities) less[CAP_TO_INDEX(each)].effective &= ~CAP_TO_MASK(each);
        set(less);
    }
    WithoutCapabilities(const WithoutCapabilities&) = delete;
    WithoutCapabilities& operator=(const WithoutCapabilities&) = delete;
    ~WithoutCapabilities() { set(before_); }

  private:
    static void get(__user_cap_data_struct* data) {
        __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
        EXPECT_EQ(::syscall(SYS_capget, &head, data), 0);
    }
    static void set(const __user_cap_data_struct* data) {
        __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
        EXPECT_EQ(::syscall(SYS_capset, &head, data), 0);
    }
    __user_cap_data_struct before_[2];
};

}  // namespace cairn::test
