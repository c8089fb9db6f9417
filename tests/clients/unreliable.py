"""UC and UD: what the clients are run with. run_clients.py runs it."""

UC_PINGPONG = [["-c"], ["-e", "-c"], ["-s", 0], ["-s", 1], ["-s", 1048576, "-n", 100], ["-m", 1024, "-c"],
               ["-m", 4096, "-c"], ["-g", 1, "-c"]]
UD_PINGPONG = [["-c"], ["-e", "-c"], ["-s", 0], ["-s", 1], ["-s", 4096, "-c"], ["-g", 1, "-c"]]
PINGPONG = ([("ibv_uc_pingpong", flags) for flags in UC_PINGPONG] +
            [("ibv_ud_pingpong", flags) for flags in UD_PINGPONG])

PERFTEST = [
    ("ib_write_bw", ["-c", "UC"]),
    ("ib_write_lat", ["-c", "UC"]),
    ("ib_send_bw", ["-c", "UC"]),
    ("ib_send_lat", ["-c", "UC"]),
    ("ib_send_bw", ["-c", "UC", "-a", "-n", 100]),
    ("ib_write_bw", ["-c", "UC", "-q", 4, "-b"]),
    ("ib_send_bw", ["-c", "UC", "-x", 1, "-e"]),
    ("ib_send_bw", ["-c", "UD"]),
    ("ib_send_lat", ["-c", "UD"]),
    ("ib_send_bw", ["-c", "UD", "-a"]),
    ("ib_send_lat", ["-c", "UD", "-a"]),
    ("ib_send_bw", ["-c", "UD", "-b"]),
    ("ib_send_bw", ["-c", "UD", "-q", 4]),
    ("ib_send_bw", ["-c", "UD", "-l", 8, "-n", 1600]),
    ("ib_send_bw", ["-c", "UD", "-e"]),
    ("ib_send_lat", ["-c", "UD", "-e"]),
    ("ib_send_bw", ["-c", "UD", "-x", 1, "--tclass", 96]),
    ("ib_send_lat", ["-c", "UD", "-I", 64]),
    # perftest's group is an IPv6 one.
    ("ib_send_bw", ["-c", "UD", "-g", "-x", 1]),
    ("ib_send_lat", ["-c", "UD", "-g", "-x", 1]),
]

VERIFY = {
    "UC": ["-c", "uc"],
    "UC, both directions, 8 QPs": ["-c", "uc", "-b", "-q", 8, "-d", 16],
    "UC, MTU 256": ["-c", "uc", "-m", 256, "-d", 16],
    "UC over IPv6, events": ["-c", "uc", "-x", 1, "-e"],
    "UD": ["-c", "ud"],
    "UD, both directions, 8 QPs": ["-c", "ud", "-b", "-q", 8, "-d", 16],
    "UD, chains, many elements": ["-c", "ud", "-l", 8, "-g", 7],
    "UD over IPv6, events": ["-c", "ud", "-x", 1, "-e"],
}

# Each end has two addresses of each kind: four rows, all RoCE v2, the last of them used.
ADDRESSES = (["--ip", "198.18.9.1/24", "--ip", "198.18.9.2/24", "--ip", "fd18::91/64", "--ip", "fd18::92/64"],
             ["--ip", "198.18.9.3/24", "--ip", "198.18.9.4/24", "--ip", "fd18::93/64", "--ip", "fd18::94/64"])
