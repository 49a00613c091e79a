// What a service tells systemd: sd_notify(3), without its library.
#pragma once

#include <string>

namespace cairn::service {

// The socket that systemd has named, if it has. It is for the unit's main process alone, and so is taken out
// of the environment, which the programs inherit.
class Notify {
  public:
    Notify();
    // Lines such as READY=1 and STATUS=text.
    void tell(const std::string& lines) const;

  private:
    std::string socket_;
};

}  // namespace cairn::service
