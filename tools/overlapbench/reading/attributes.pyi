# The counters as attributes of a row; written by dev/update_counters.py.
# ruff: noqa: N815

from overlapbench.reading.rows import Figure

class Attributes:
    time: Figure  # time
    time_low_ms: Figure  # time, low
    time_high_ms: Figure  # time, high
    margin_pct: Figure  # margin
    p05_ms: Figure  # p05
    p95_ms: Figure  # p95
    cv: Figure  # cv
    samples: Figure  # samples
    skew_us: Figure  # skew
    empty_sample_us: Figure  # empty sample
    core_wait_pct: Figure  # waited for a core
    foreign_cores: Figure  # others' cores
    foreign_gpu_processes: Figure  # others on the GPU
    slowest_rank: Figure  # slowest rank
    slowest_share: Figure  # slowest share
    rank_spread: Figure  # rank spread
    max_rel_err: Figure  # relative error
    comm_sms: Figure  # comm SMs
    valid: Figure  # valid
    algbw_GBps: Figure  # algbw
    busbw_GBps: Figure  # busbw
    GBps: Figure  # bandwidth
    TFLOPs: Figure  # rate
    m: Figure  # m
    n: Figure  # n
    k: Figure  # k
    bound_ms: Figure  # bound
    pct_of_bound: Figure  # of the bound
    sequential_ms: Figure  # sequential
    speedup: Figure  # speedup
    energy_J: Figure  # energy
    average_W: Figure  # power
    comp_energy_J: Figure  # energy of C
    comp_average_W: Figure  # power of C
    comm_energy_J: Figure  # energy of M
    comm_average_W: Figure  # power of M
    second_energy_J: Figure  # energy of the second
    second_average_W: Figure  # power of the second
    serial_energy_J: Figure  # energy one by one
    energy_saved: Figure  # energy saved
    time_saved: Figure  # time saved
    energy_per_token_J: Figure  # energy per token
    energy_time_Js: Figure  # energy x time
    energy_run_ms: Figure  # repeated
    comp_ms: Figure  # C
    comm_ms: Figure  # M
    overlap_ms: Figure  # T
    second_ms: Figure  # second
    slowdown: Figure  # slowdown
    efficiency: Figure  # efficiency
    hidden_comm: Figure  # hidden comm
    comp_slowdown: Figure  # comp ×
    comm_slowdown: Figure  # comm ×
    second_slowdown: Figure  # second ×
    exposed_comm_ms: Figure  # exposed comm
    coverage: Figure  # coverage
    product_slowdown: Figure  # by product
    product_error: Figure  # product error
    comp_sms_used: Figure  # SMs used
    copy_ms: Figure  # copy
    pct_of_copy: Figure  # of a copy
    fused_ms: Figure  # fused
    fused_speedup: Figure  # fused speedup
    predicted_speedup: Figure  # predicted
    sync_cost_ms: Figure  # cost of waiting
    identical: Figure  # identical
    batches_per_s: Figure  # batches
    device_idle_share: Figure  # idle share
    bound_by_workers: Figure  # bound by workers
    chunking_cost_ms: Figure  # chunking
    interference_ms: Figure  # interference
    bubble_share: Figure  # bubble
    formula_bubble_share: Figure  # bubble by formula
    in_flight: Figure  # in flight
    tokens_per_s: Figure  # tokens/s
    memory_bytes: Figure  # memory
    estimate_ms: Figure  # estimate
    estimate_efficiency: Figure  # estimated efficiency
    estimate_speedup: Figure  # estimated speedup
    estimate_error_pct: Figure  # estimate's error
    breakdown_valid: Figure  # breakdown valid
    traced_ms: Figure  # traced
    traced_events_ms: Figure  # by events
    untraced_events_ms: Figure  # untraced
    trace_cost_pct: Figure  # trace costs
    only_comp_pct: Figure  # only COMP
    only_comm_pct: Figure  # only COMM
    only_mem_pct: Figure  # only MEM
    comp_comm_pct: Figure  # COMP and COMM
    comp_mem_pct: Figure  # COMP and MEM
    comm_mem_pct: Figure  # COMM and MEM
    comp_comm_mem_pct: Figure  # all three
    idle_pct: Figure  # idle
    idle_ranks_pct: Figure  # idle: ranks
    idle_gate_pct: Figure  # idle: gate
    idle_host_pct: Figure  # idle: host
    idle_dependency_pct: Figure  # idle: dependency
    idle_other_pct: Figure  # idle: other
    overlap_pct: Figure  # overlap
    overlap_by_name_pct: Figure  # overlap by name
    pct_of_peak: Figure  # of the peak
    fixed_cost_share: Figure  # fixed cost share
    host_to_device_GBps: Figure  # in
    device_to_host_GBps: Figure  # out
    host_to_device_slowdown: Figure  # in slowdown
    device_to_host_slowdown: Figure  # out slowdown
    in_ms: Figure  # in
    compute_ms: Figure  # compute
    out_ms: Figure  # out
    duplex_bound_ms: Figure  # duplex bound
    one_transfer_ms: Figure  # one transfer
    fragmented_slowdown: Figure  # slowdown
    us_per_fragment: Figure  # per fragment
    host_us_per_fragment: Figure  # host per fragment
    latency_alone_ms: Figure  # alone
    latency_equal_ms: Figure  # equal
    latency_ms: Figure  # prioritized
    gain: Figure  # gain
    work_slowdown_equal: Figure  # slowdown, equal
    work_slowdown: Figure  # slowdown
    load_alone_ms: Figure  # load alone
    load_slowdown_equal: Figure  # load slowdown, equal
    load_slowdown: Figure  # load slowdown
    make_ms: Figure  # make
    consume_ms: Figure  # consume
    predicted_batches_per_s: Figure  # predicted
    prediction_error_pct: Figure  # prediction error
    host_us_per_launch: Figure  # host per launch
    device_us_per_launch: Figure  # device per launch
    launches_per_s: Figure  # launches
    round_trip_us: Figure  # round trip
    whole_ms: Figure  # whole
    pieces_slowdown: Figure  # slowdown
    kernel_us: Figure  # kernel
    dominated_below_us: Figure  # dominated below
    same_stream_us: Figure  # same stream
    other_stream_us: Figure  # other stream
    train_ms: Figure  # training
    loop_ms: Figure  # loop
    kernel_ms: Figure  # kernel
    graph_speedup: Figure  # graph speedup
    epilogue_speedup: Figure  # epilogue speedup
    chunks: Figure  # chunks
    direct: Figure  # direct
    step_overhead_pct: Figure  # overhead
    unsharded_bytes: Figure  # unsharded
    straggler_rank: Figure  # straggler
    straggler_load: Figure  # straggler's load
    padding_pct: Figure  # padding
    layer_us: Figure  # layer
    launched_layer_us: Figure  # launched layer
    launch_share: Figure  # launch share
    graph_gain: Figure  # graph gain
    step_p50_us: Figure  # p50
    step_p99_us: Figure  # p99
    batch_ms: Figure  # batch
    batch_speedup: Figure  # batch speedup
    GBps_per_sm: Figure  # per SM
    knee_sms: Figure  # knee
    by_sm: Figure  # by SMs
    by_hbm: Figure  # by memory
    by_l2: Figure  # by L2
    by_clock: Figure  # by clocks
    by_lead: Figure  # by the lead
    residual: Figure  # residual
