// Sockets that speak for addresses of hosts that can't be asked: a datagram that waited at the checkpoint has
// to come from where it came.
#pragma once

#include <map>
#include <string>

#include "common/fd.h"
#include "common/socket_names.h"
#include "resources/socket/restore_addresses.h"

namespace cairn::restart {

class StandIns {
  public:
    // `names`: what programs are told of addresses (libcairn.so reads it); null: they are told the kernel's.
    explicit StandIns(SocketNames* names) : names_(names) {}

    // A socket of this protocol (UDP, UDP-Lite) whose datagrams come from there: on this host, or (of
    // another, whose sender may have gone) by root's privilege to say so. Without it they come from an
    // address of loopback that nobody else uses, and programs are told the one that it stands for. No
    // descriptor: none of these can be had.
    [[nodiscard]] Fd speak_for(const Address& from, int protocol);

  private:
    [[nodiscard]] Address instead_of(const Address& from);

    SocketNames* names_;
    std::map<std::string, Address> known_;  // by the host that each speaks for
};

}  // namespace cairn::restart
