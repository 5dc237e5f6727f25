//! CSV and Zeek.

use proptest::prelude::*;

use super::*;

const S: i64 = 1_000_000_000;

#[test]
fn csv_of_weft_with_and_without_an_end() {
    let (format, kept) =
        read_all(b"src,dst,start,size\n0,5,0,1000000\nh2,h7,20ms,1.5GB\n\n# remark\n3,12,0,inf\n").expect("flows");
    assert_eq!(format, Format::Csv);
    let flows: Vec<_> = kept.flows.iter().map(short).collect();
    assert_eq!(flows, [row("0", "5", 0, None, 1_000_000), row("h2", "h7", 20_000_000, None, 1_500_000_000)]);
    assert_eq!(kept.tally.count_of("endless flows (size inf)"), 1);
    assert!(kept.tally.notes()[0].contains("all bytes count at the start"));
    let (_, kept) = read_all(b"start,end,src,dst,bytes,sport\n1,2.5,a,b,7,80\n").expect("flows");
    assert_eq!(short(&kept.flows[0]), row("a", "b", S, Some(2_500_000_000), 7));
    assert_eq!(kept.flows[0].src_port, 80);
}

#[test]
fn csv_of_nfdump() {
    let old = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,ra\n\
2026-01-31 12:00:00,2026-01-31 12:00:02,2.000,10.0.0.1,10.0.1.2,4000,80,TCP,.AP.SF,0,0,10,5000,4,300,10.9.9.1\n\
Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,5000,10,0,0,0\n";
    let (_, kept) = read_all(old.as_bytes()).expect("flows");
    let noon = 1_769_860_800 * S;
    let flows: Vec<_> = kept.flows.iter().map(short).collect();
    let (there, back) =
        (row("10.0.0.1", "10.0.1.2", noon, Some(noon + 2 * S), 5000), row("10.0.1.2", "10.0.0.1", noon, Some(noon + 2 * S), 300));
    assert_eq!(flows, [back, there]);
    assert_eq!((kept.flows[1].protocol, kept.flows[1].dst_port, kept.flows[0].src_port), (6, 80, 80));
    assert!(kept.flows[1].exporter.is_some());
    let new = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n\
2026-01-31 12:00:00.250,0.500,UDP,10.0.0.1,53,10.0.0.2,4000,1,90,1\n";
    let (_, kept) = read_all(new.as_bytes()).expect("flows");
    assert_eq!(short(&kept.flows[0]), row("10.0.0.1", "10.0.0.2", noon + S / 4, Some(noon + 3 * S / 4), 90));
}

const ZEEK: &str = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n\
#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tduration\torig_bytes\tresp_bytes\torig_pkts\torig_ip_bytes\tresp_pkts\tresp_ip_bytes\n\
#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tinterval\tcount\tcount\tcount\tcount\tcount\tcount\n\
1.5\tC1\t10.0.0.1\t4000\t10.0.0.2\t80\ttcp\t0.25\t100\t2000\t3\t220\t4\t2160\n\
2.0\tC2\t10.0.0.3\t4001\t10.0.0.2\t80\ttcp\t-\t-\t-\t1\t0\t0\t0\n\
#close\t2026-01-31-12-00-00\n";

#[test]
fn zeek_in_both_forms() {
    let (format, kept) = read_all(ZEEK.as_bytes()).expect("flows");
    let flows: Vec<_> = kept.flows.iter().map(short).collect();
    let expected = [
        row("10.0.0.2", "10.0.0.1", 1_500_000_000, Some(1_750_000_000), 2160),
        row("10.0.0.1", "10.0.0.2", 1_500_000_000, Some(1_750_000_000), 220),
    ];
    assert_eq!((format, flows.as_slice()), (Format::ZeekTsv, expected.as_slice()));
    assert_eq!(kept.tally.count_of("flows without a byte"), 1);
    let json = "{\"ts\":1.5,\"uid\":\"C1\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":4000,\"id.resp_h\":\"10.0.0.2\",\"id.resp_p\":80,\
\"proto\":\"tcp\",\"duration\":0.25,\"orig_bytes\":100,\"resp_bytes\":2000,\"orig_ip_bytes\":220,\"resp_ip_bytes\":2160}\n";
    let (format, kept) = read_all(json.as_bytes()).expect("flows");
    let flows: Vec<_> = kept.flows.iter().map(short).collect();
    assert_eq!((format, flows.as_slice()), (Format::ZeekJson, expected.as_slice()));
}

#[test]
fn damage_is_named_by_its_line() {
    let csv = "src,dst,start,size,end\n0,1,0,5,1\n";
    for (text, place, message) in [
        (String::new(), "the beginning", "empty"),
        ("hello\n".to_owned(), "the beginning", "none that is known"),
        ("src,dst,size\n0,1,5\n".to_owned(), "line 1", "no column `start`"),
        (format!("{csv}0,1,0"), "line 3", "3 fields where the header has 5"),
        (format!("{csv}0,1,x,5,1\n"), "line 3", "`x` is not a time"),
        (format!("{csv}0,1,0,many,1\n"), "line 3", "`many` is not a size"),
        (format!("{csv},1,0,5,1\n"), "line 3", "a host is empty"),
        (ZEEK.replace("2.0\tC2", "x\tC2"), "line 9", "`x` is no value of ts"),
        (ZEEK.replace("\t2160", ""), "line 8", "13 fields where #fields names 14"),
        (ZEEK.replace("id.orig_h", "host"), "line 6", "no field `id.orig_h`"),
        ("\x1f".to_owned(), "the beginning", "none that is known"),
    ] {
        let Err(problem) = read_all(text.as_bytes()) else { panic!("{text:?} is read") };
        assert!(problem.place == place && problem.message.contains(message), "{text:?}: {problem:?}");
        assert!(!problem.help.is_empty());
    }
    let kept = read_some(format!("{csv}0,1,x,5,1\n0,1,7,5,8\n0,1,0").as_bytes()).expect("flows");
    assert_eq!((kept.flows.len(), kept.tally.count_of("lines that are no flow")), (2, 2));
    assert_eq!(read_all(&[0x1f, 0x8b, 8]).err().map(|it| it.message), Some("the file is compressed".to_owned()));
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_flows(bytes: Vec<u8>, tail in "[0-9a-f,\"\\n\\t.:#-]{0,80}") {
        let _ = (read_all(&bytes), read_some(&bytes));
        for head in ["src,dst,start,size,end\n", "#separator \\x09\n#fields\tts\tid.orig_h\tid.resp_h\torig_bytes\tresp_bytes\n", "{\"id.orig_h\":1}\n"] {
            let mut whole = head.as_bytes().to_vec();
            whole.extend_from_slice(tail.as_bytes());
            let _ = read_some(&whole);
            whole.extend_from_slice(&bytes);
            let _ = (read_all(&whole), read_some(&whole));
        }
    }
}
